"""Predictions of online models: classes, calibrated confidences, prediction sets, explanations."""
