"""The table of artifact kinds: one entry for each kind, with everything that the program knows about it.

Paths are dotted names and are imported when they are first needed, so the table is cheap and every module can import it.  The artifacts
take the dataclasses from it, `eval` the metrics and plots, and `merge` the functions that finish shards.  A kind that changes keeps its
old dataclass, which gets a method `upgrade()` that returns the next version; the new path is appended to `versions`.
"""

from __future__ import annotations

from typing import Any

from herdcli.errors import DataError
from herdcli.kind_entry import Kind


def _plots(module: str, *names: str) -> dict[str, str]:
    """Return the paths of plots that are drawn by the functions of the same names in one module."""
    return {name: f"herdcli.evaluation.{module}.{name}" for name in names}


SHARD = "join the shards first: herd merge"
OF_REGRESSIONS = ("worse than the mean", "learned nothing", "worse than nearest centroid", "worse than a linear model", "overfits")
TARGETS = ("data", "target", "scores", "trace", "kernel")
GALLERY = ("gallery", "probes", "probe_sets", "gallery_images", "drop_first", "dimensions")
EXCHANGE = "herdcli.exchange"
HARMONIUMS: dict[str, Any] = {  # fields that an rbm and a dbn have in common
    "harmonium": True,
    "judge": "herdcli.cli.eval.harmoniums.with_evaluation_rows",
    "apply": "herdcli.cli.apply.harmoniums.apply_rbm",
    "sample": "herdcli.cli.small.sample.sample_rbm",
}

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="dataset",
            table="herdcli.evaluation.summaries.whole_tables.dataset_columns",
            summary="herdcli.evaluation.summaries.data.dataset_tables",
            versions=("herdcli.artifacts.dataset.Dataset",),
            exports={"netcdf": "herdcli.artifacts.formats.inference_data.write_dataset"},
            metrics="herdcli.evaluation.figures.samples.metrics",
            tolerance=1e-9,
            judge="herdcli.cli.eval.samples.with_target",
            judged_by=TARGETS,
            plots=_plots("plots.samples_plots", "atoms"),
        ),
        Kind(
            name="rbm",
            table="herdcli.evaluation.summaries.whole_tables.hidden_unit_columns",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.filters.rbm_tables",
            versions=("herdcli.rbm.model.RBM1", "herdcli.rbm.model.RBM"),
            exact=True,
            announce="herdcli.cli.eval.harmoniums.suggest_skipping_annealing",
            comparison="herdcli.evaluation.figures.rbm.worse_than_independent_message",
            imports="herdcli.cli.convert.model_weights.import_rbm",
            exports={"safetensors": f"{EXCHANGE}.safetensors_files.write_rbm", "onnx": f"{EXCHANGE}.onnx_models.write_hidden_means"},
            metrics="herdcli.evaluation.figures.rbm.metrics",
            baseline="independent",
            verdicts=(
                "worse than independent",
                "worse than one Gaussian",
                "learned nothing",
                "overfits",
                "dead units",
                "not reliable",
                "worse than majority",
                "worse than naive Bayes",
                "no better than chance",
            ),
            findings="herdcli.evaluation.verdicts.rbm_findings",
            advice={
                "overfits": "use fewer --hidden, a larger --weight-decay, or more rows",
                "worse than one Gaussian": (
                    "use more --epochs or --hidden, --learn-variances or --standardize if they were left out, or herd em"
                ),
                "learned nothing": (
                    "use more --epochs, a higher --learning-rate, or --standardize for gaussian units; dependence that no pair of columns "
                    "shows, such as a parity, needs --algorithm exact --learning-rate 0.3 --epochs 600; or the columns are independent"
                ),
            },
            tolerance=1e-4,
            quick="herdcli.evaluation.metrics.quick_metrics.quick_rbm_metrics",
            judged_by=("data",),
            **HARMONIUMS,
            plots=_plots("plots.rbm_plots", "filters", "reconstructions", "samples", "trace", "validation", "told", "tracked"),
        ),
        Kind(
            name="rbm-pairs",
            table="herdcli.evaluation.summaries.whole_tables.pair_columns",
            summary="herdcli.evaluation.summaries.filters.pair_tables",
            versions=("herdcli.rbm.pairs.PairRBM",),
            metrics="herdcli.evaluation.figures.gallery.metrics",
            baseline="reconstruction_mean",
            verdicts=("learned nothing", "worse than correlation"),
            findings="herdcli.evaluation.verdicts.pair_findings",
            advice={"learned nothing": "use another --learning-rate, or more --epochs"},
            judge="herdcli.cli.eval.gallery.with_gallery",
            judged_by=GALLERY,
            plots=_plots("plots.gallery_plots", "filters", "trace", "errors")
            | {"nearest": "herdcli.evaluation.plots.gallery_plots.most_similar_gallery_images"},
        ),
        Kind(
            name="dbn",
            table="herdcli.evaluation.summaries.whole_tables.layer_columns",
            summary="herdcli.evaluation.summaries.filters.dbn_tables",
            score=("log_likelihood",),
            versions=("herdcli.rbm.layers.DBN",),
            imports="herdcli.cli.convert.model_weights.import_dbn",
            exports={"safetensors": f"{EXCHANGE}.safetensors_files.write_dbn", "onnx": f"{EXCHANGE}.onnx_models.write_hidden_means"},
            metrics="herdcli.evaluation.figures.dbn.metrics",
            baseline="independent",
            verdicts=("worse than independent", "learned nothing", "dead units"),
            findings="herdcli.evaluation.verdicts.dbn_findings",
            advice={
                "learned nothing": (
                    "use more --epochs, a higher --learning-rate, or --standardize for gaussian units; or the columns are independent"
                )
            },
            tolerance=1e-4,
            quick="herdcli.evaluation.metrics.quick_metrics.quick_dbn_metrics",
            judged_by=("data",),
            **HARMONIUMS,
            plots=_plots("figures.dbn", "filters", "reconstructions", "samples", "trace"),
        ),
        Kind(
            name="rtrbm",
            table="herdcli.evaluation.summaries.whole_tables.recurrent_columns",
            summary="herdcli.evaluation.summaries.filters.recurrent_tables",
            score=("log_likelihood",),
            versions=("herdcli.rbm.recurrent.artifacts.RecurrentRBM",),
            metrics="herdcli.evaluation.figures.recurrent.metrics",
            baseline="independent",
            verdicts=("worse than independent", "learned nothing", "worse than persistence", "worse than the mean"),
            advice={
                "worse than independent": "use more --epochs, a lower --learning-rate, or --standardize",
                "learned nothing": "use more --epochs or another --learning-rate; or the rows do not depend on those before them",
                "worse than persistence": "use more --epochs, more --hidden, or another --learning-rate",
                "worse than the mean": "use more --epochs, more --hidden, or another --learning-rate",
            },
            quick="herdcli.evaluation.figures.recurrent.quick_metrics",
            judge="herdcli.cli.fit_rbm.recurrent_models.with_evaluation_sequences",
            judged_by=("data",),
            apply="herdcli.cli.fit_rbm.recurrent_models.apply_recurrent",
            sample="herdcli.cli.fit_rbm.recurrent_models.sample_recurrent",
            plots=_plots("plots.recurrent_plots", "predicted", "filters", "trace"),
        ),
        Kind(
            name="herding",
            table="herdcli.evaluation.summaries.whole_tables.run_columns",
            summary="herdcli.evaluation.summaries.filters.herding_tables",
            versions=("herdcli.herding.model.Herding",),
            exports={"netcdf": "herdcli.artifacts.formats.inference_data.write_herding"},
            sample="herdcli.cli.herd.pseudo_samples.sample_herding",
            metrics="herdcli.evaluation.figures.herding.metrics",
            baseline="moment_gap_random",
            verdicts=("not converged", "worse than random", "worse than majority", "no better than chance"),
            findings="herdcli.evaluation.verdicts.herding_findings",
            advice={"worse than random": "use more --iterations, or --variant safe"},
            tolerance=0.0,  # weights are integers, so they have no rounding errors
            plots=_plots("plots.herding_plots", "rates", "gap", "samples"),
        ),
        Kind(
            name="classifier",
            score=("1 - error",),
            summary="herdcli.evaluation.summaries.supervised.classifier_tables",
            versions=tuple(f"herdcli.online.model.Classifier{version}" for version in (1, 2, "")),
            imports="herdcli.cli.convert.model_weights.import_classifier",
            exports={"onnx": f"{EXCHANGE}.onnx_models.write_classifier", "vw": f"{EXCHANGE}.vowpal_models.write_model"},
            metrics="herdcli.evaluation.figures.classifier.metrics",
            baseline="error_majority",
            verdicts=(
                "worse than majority",
                "no better than chance",
                "worse than nearest centroid",
                "worse than a linear model",
                "one class",
                "misleading probabilities",
            ),
            findings="herdcli.evaluation.verdicts.classifier_findings",
            judge="herdcli.cli.eval.classifiers.with_evaluation_examples",
            judged_by=("data",),
            plots=_plots("plots.classifier_plots", "confusion", "calibration", "weights", "trace")
            | {"precision-recall": "herdcli.evaluation.plots.classifier_plots.precision_recall"},
            apply="herdcli.cli.apply.classifiers.apply_classifier",
        ),
        Kind(
            name="predictor",
            score=("r2",),
            summary="herdcli.evaluation.summaries.supervised.classifier_tables",
            versions=("herdcli.online.numbers.Predictor",),
            metrics="herdcli.evaluation.figures.predictor.metrics",
            baseline="rmse_mean",
            verdicts=("worse than the mean", "learned nothing"),
            findings="herdcli.evaluation.verdicts.predictor_findings",
            judge="herdcli.cli.eval.classifiers.with_evaluation_examples",
            judged_by=("data",),
            plots=_plots("figures.predictor", "predicted", "weights") | {"trace": "herdcli.evaluation.plots.classifier_plots.trace"},
            apply="herdcli.cli.apply.classifiers.apply_predictor",
        ),
        Kind(
            name="tagger",
            summary="herdcli.evaluation.summaries.supervised.tagger_tables",
            score=("1 - hamming",),
            versions=("herdcli.online.tags.Tagger",),
            metrics="herdcli.evaluation.figures.tagger.metrics",
            baseline="hamming_none",
            verdicts=("no better than chance",),
            findings="herdcli.evaluation.verdicts.tagger_findings",
            judge="herdcli.cli.eval.classifiers.with_evaluation_examples",
            judged_by=("data",),
            plots=_plots("plots.classifier_plots", "weights"),
            apply="herdcli.cli.apply.classifiers.apply_tagger",
        ),
        Kind(
            name="samples",
            table="herdcli.evaluation.summaries.whole_tables.atom_columns",
            score=("-mmd",),
            summary="herdcli.evaluation.summaries.data.samples_tables",
            versions=("herdcli.quadrature.samples.Samples",),
            exports={"netcdf": "herdcli.artifacts.formats.inference_data.write_samples"},
            metrics="herdcli.evaluation.figures.samples.metrics",
            baseline="mmd_random",
            verdicts=("worse than random", "kernel too narrow", "kernel too wide", "one point", "embedding too coarse"),
            findings="herdcli.evaluation.verdicts.samples_findings",
            judge="herdcli.cli.eval.samples.with_target",
            judged_by=TARGETS,
            plots=_plots("plots.samples_plots", "atoms", "mmd"),
        ),
        Kind(
            name="network",
            table="herdcli.evaluation.summaries.whole_tables.factor_columns",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.networks.network_tables",
            versions=("herdcli.markov.model.network.Network",),
            metrics="herdcli.evaluation.figures.network.metrics",
            baseline="independent",
            verdicts=("worse than independent", "impossible rows", "learned nothing", "overfits", "not converged"),
            findings="herdcli.evaluation.verdicts.network_findings",
            advice={
                "worse than independent": "use more rows, --smoothing 1, or a simpler --structure",
                "overfits": "use more rows, --smoothing 1, or a simpler --structure",
            },
            tolerance=1e-9,
            quick="herdcli.evaluation.figures.network.quick_metrics",
            judge="herdcli.cli.eval.networks.with_reference",
            judged_by=("reference", "data"),
            sample="herdcli.cli.network.network_samples.sample_network",
            plots=_plots("plots.network_plots", "graph", "given", "reference")
            | {"trace": "herdcli.evaluation.plots.network_plots.learning"},
        ),
        Kind(
            name="beliefs",
            table="herdcli.evaluation.summaries.whole_tables.marginal_columns",
            summary="herdcli.evaluation.summaries.networks.belief_tables",
            versions=("herdcli.markov.model.beliefs.Beliefs",),
            metrics="herdcli.evaluation.figures.beliefs.metrics",
            baseline="log_z_mean_field",
            verdicts=(
                "not converged",
                "chains disagree",
                "below mean field",
                "log Z above its bound",
                "inaccurate marginals",
                "inconsistent marginals",
                "sampling error",
                "not reliable",
                "marginals not checked",
            ),
            findings="herdcli.evaluation.verdicts.beliefs_findings",
            judge="herdcli.cli.eval.networks.with_reference",
            judged_by=("reference",),
            plots=_plots("plots.network_plots", "marginals", "trace", "reference"),
        ),
        Kind(
            name="ica",
            table="herdcli.evaluation.summaries.whole_tables.filter_columns",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.filters.ica_tables",
            versions=("herdcli.ica.model.ICA1", "herdcli.ica.model.ICA"),
            exports={"safetensors": f"{EXCHANGE}.safetensors_files.write_ica", "onnx": f"{EXCHANGE}.onnx_models.write_ica"},
            metrics="herdcli.evaluation.figures.ica.metrics",
            baseline="log_likelihood_whitening",
            verdicts=("worse than whitening", "overfits", "dead filters", "too few rows", "gaussian outputs", "not converged"),
            findings="herdcli.evaluation.verdicts.ica_findings",
            advice={
                "overfits": "use fewer --components, or more rows",
                "gaussian outputs": "the rotation of Gaussian outputs cannot be determined: use more rows, or --algorithm sobi for rows "
                "in order of time",
            },
            quick="herdcli.evaluation.figures.ica.quick_metrics",
            judge="herdcli.cli.eval.ica_filters.with_evaluation_rows",
            judged_by=("data", "mixing", "true_sources"),
            apply="herdcli.cli.apply.ica_filters.apply_ica",
            plots=_plots("plots.ica_plots", "filters", "spectra", "gabors", "tiling"),
        ),
        Kind(
            name="mixture",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.latent.mixture_tables",
            versions=("herdcli.em.artifacts.Mixture",),
            metrics="herdcli.evaluation.figures.em.metrics",
            baseline="log_likelihood_baseline",
            verdicts=("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
            findings="herdcli.evaluation.verdicts.em_findings",
            advice={
                "worse than baseline": "use fewer --components, --covariance diagonal, --model fa, or more rows",
                "learned nothing": "the model predicts rows no better than one Gaussian",
            },
            judge="herdcli.cli.em.evaluate_rows.with_evaluation_rows",
            judged_by=("data",),
            apply="herdcli.cli.em.apply.apply_model",
            sample="herdcli.cli.em.sample_rows.sample_model",
            plots=_plots("plots.em_plots", "clusters", "means", "ledger"),
        ),
        Kind(
            name="kmeans",
            score=("-squared_error",),
            summary="herdcli.evaluation.summaries.latent.centre_tables",
            versions=("herdcli.em.artifacts.Clusters",),
            metrics="herdcli.evaluation.figures.em.metrics",
            baseline="squared_error_baseline",
            verdicts=("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
            findings="herdcli.evaluation.verdicts.em_findings",
            advice={"learned nothing": "the model is no better than one cluster centre"},
            judge="herdcli.cli.em.evaluate_rows.with_evaluation_rows",
            judged_by=("data",),
            apply="herdcli.cli.em.apply.apply_model",
            plots=_plots("plots.em_plots", "clusters", "means", "ledger"),
        ),
        Kind(
            name="factors",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.latent.factor_tables",
            versions=("herdcli.em.artifacts.FactorModel",),
            metrics="herdcli.evaluation.figures.em.metrics",
            baseline="log_likelihood_baseline",
            verdicts=("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
            findings="herdcli.evaluation.verdicts.em_findings",
            advice={"learned nothing": "the model predicts rows no better than independent columns"},
            judge="herdcli.cli.em.evaluate_rows.with_evaluation_rows",
            judged_by=("data",),
            apply="herdcli.cli.em.apply.apply_model",
            sample="herdcli.cli.em.sample_rows.sample_model",
            plots=_plots("plots.em_plots", "loadings", "ledger"),
        ),
        Kind(
            name="hmm",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.latent.chain_tables",
            versions=("herdcli.em.hmm_artifacts.HiddenMarkovModel",),
            metrics="herdcli.evaluation.figures.hmm.metrics",
            baseline="log_likelihood_baseline",
            verdicts=("worse than baseline", "learned nothing", "worse than persistence", "variance at floor"),
            advice={
                "variance at floor": "some directions hardly vary within a state: use fewer --components or another --covariance",
                "learned nothing": "the order of the rows does not improve the prediction: the frequencies of the states do as well",
                "worse than baseline": "use fewer --components, --covariance diagonal, or more rows",
                "worse than persistence": "rows change slowly: use --model lds, or differences of the rows",
            },
            judge="herdcli.cli.em.evaluate_sequences.evaluate_hmm",
            judged_by=("data",),
            apply="herdcli.cli.em.hmm_apply.apply_hmm",
            sample="herdcli.cli.em.hmm_apply.sample_hmm",
            plots=_plots("plots.hmm_plots", "transitions", "ledger"),
        ),
        Kind(
            name="lds",
            score=("log_likelihood",),
            summary="herdcli.evaluation.summaries.latent.dynamics_tables",
            versions=("herdcli.em.lds_artifacts.LinearDynamics",),
            metrics="herdcli.evaluation.figures.lds.metrics",
            baseline="log_likelihood_baseline",
            verdicts=("worse than baseline", "learned nothing", "worse than persistence", "unstable"),
            advice={
                "learned nothing": "the model predicts rows no better than one Gaussian",
                "worse than baseline": "the baseline is one Gaussian: use more rows, fewer --components, or other columns",
                "worse than persistence": "use more --components: columns that no state follows are predicted by their means",
            },
            judge="herdcli.cli.em.evaluate_sequences.evaluate_lds",
            judged_by=("data",),
            apply="herdcli.cli.em.lds_apply.apply_lds",
            sample="herdcli.cli.em.lds_apply.sample_lds",
            plots=_plots("plots.lds_plots", "states") | _plots("plots.em_plots", "ledger"),
        ),
        Kind(
            name="regression",
            table="herdcli.evaluation.summaries.whole_tables.coefficient_columns",
            score=(
                "1 - error",
                "explained",
            ),
            summary="herdcli.evaluation.summaries.supervised.regression_tables",
            versions=("herdcli.regression.model.GeneralisedLinear",),
            exports={"onnx": f"{EXCHANGE}.onnx_models.write_regression"},
            metrics="herdcli.evaluation.figures.regression.metrics",
            baseline="independent",
            verdicts=(*OF_REGRESSIONS, "separated", "not converged"),
            findings="herdcli.evaluation.verdicts.regression_findings",
            advice={
                "overfits": "use a penalty (--l2 0.01), fewer columns, or more rows",
                "worse than nearest centroid": "use a penalty (--l2 0.01), fewer columns, or more rows",
                "worse than a linear model": "use a penalty (--l2 0.01), fewer columns, or more rows",
                "learned nothing": "use a smaller penalty, or columns on which the response depends",
            },
            judge="herdcli.cli.regress.evaluate_rows.with_evaluation_rows",
            judged_by=("data",),
            plots=_plots("plots.regression_plots", "coefficients", "calibration", "residuals", "trace"),
            apply="herdcli.cli.regress.predictions.apply_regression",
        ),
        Kind(
            name="perceptron",
            score=(
                "1 - error",
                "explained",
            ),
            versions=("herdcli.regression.perceptron.model.Perceptron",),
            summary="herdcli.evaluation.summaries.supervised.perceptron_tables",
            exports={"onnx": f"{EXCHANGE}.onnx_models.write_perceptron", "safetensors": f"{EXCHANGE}.safetensors_files.write_perceptron"},
            metrics="herdcli.evaluation.figures.perceptron.metrics",
            baseline="independent",
            verdicts=(*OF_REGRESSIONS, "not converged"),
            findings="herdcli.evaluation.verdicts.regression_findings",
            advice={
                "overfits": "use a penalty (--l2 0.01), fewer hidden units, or more rows",
                "worse than nearest centroid": "use a penalty (--l2 0.01), fewer hidden units, or more rows",
                "worse than a linear model": "use a penalty (--l2 0.01), fewer hidden units, more rows, or no --hidden",
                "learned nothing": "use another --learning-rate, or columns on which the response depends",
                "not converged": "use more --iterations or --epochs, or validation rows",
            },
            tolerance=1e-4,
            judge="herdcli.cli.regress.perceptron_rows.with_evaluation_rows",
            judged_by=("data",),
            plots=_plots("plots.perceptron_plots", "filters", "trace") | _plots("plots.regression_plots", "calibration", "residuals"),
            apply="herdcli.cli.regress.predictions.apply_regression",
        ),
        Kind(
            name="report",
            versions=("herdcli.evaluation.table.ReportTable", "herdcli.evaluation.table.Report"),
            summary="herdcli.evaluation.summaries.data.report_tables",
            plain="it is a table of figures itself",
        ),
        Kind(
            name="rbm-shard",
            versions=("herdcli.rbm.class_models.RBMShard",),
            plain=SHARD,
            finish="herdcli.cli.fit_rbm.model_runs.save_all_units",
            request="herdcli.cli.fit_rbm.request.Request",
        ),
        Kind(
            name="herding-shard",
            versions=("herdcli.herding.class_runs.HerdingShard",),
            plain=SHARD,
            finish="herdcli.cli.herd.runs.save_all_units",
            request="herdcli.cli.herd.request.Request",
        ),
        Kind(
            name="samples-shard",
            versions=("herdcli.quadrature.result_assembly.SamplesShard",),
            plain=SHARD,
            finish="herdcli.cli.kernel_herd.groups.save_all_units",
            request="herdcli.cli.kernel_herd.request.Request",
        ),
        Kind(
            name="blocks-shard",
            versions=("herdcli.quadrature.rules.merge_tree.BlocksShard",),
            plain=SHARD,
            finish="herdcli.cli.kernel_herd.block_tree.save_all_units",
            request="herdcli.cli.kernel_herd.request.Request",
        ),
        Kind(
            name="sketch-shard",
            versions=("herdcli.quadrature.embeddings.block_sketches.SketchShard",),
            plain=SHARD,
            finish="herdcli.cli.kernel_herd.block_sketches.save_all_units",
            request="herdcli.cli.kernel_herd.request.Request",
        ),
        Kind(
            name="classifier-shard",
            versions=("herdcli.online.learners.partitioned_learning.ClassifierShard",),
            plain=SHARD,
            finish="herdcli.cli.nherd_train.partitioned_rows.save_all_units",
            request="herdcli.cli.nherd_train.request.Request",
        ),
        Kind(
            name="beliefs-shard",
            versions=("herdcli.markov.bethe.starts.BeliefsShard",),
            plain=SHARD,
            finish="herdcli.cli.ups_infer.runs.save_all_units",
            request="herdcli.cli.ups_infer.request.Request",
        ),
        Kind(
            name="network-shard",
            versions=("herdcli.markov.model.row_counts.CountsShard",),
            plain=SHARD,
            finish="herdcli.cli.fit_mrf.counted_rows.save_all_units",
            request="herdcli.cli.fit_mrf.request.Request",
        ),
        Kind(
            name="regression-shard",
            versions=("herdcli.regression.block_sums.RegressionShard",),
            plain=SHARD,
            finish="herdcli.cli.regress.one_pass.save_all_units",
            request="herdcli.cli.regress.request.Request",
        ),
        Kind(
            name="ica-shard",
            versions=("herdcli.ica.block_moments.ICAShard",),
            plain=SHARD,
            finish="herdcli.cli.ica.one_pass.save_all_units",
            request="herdcli.cli.ica.request.Request",
        ),
        Kind(
            name="dataset-shard",
            versions=("herdcli.markov.exact.evidence_batch.EvidenceRowsShard",),
            plain=SHARD,
            finish="herdcli.cli.ups_infer.evidence_rows.save_all_units",
            request="herdcli.cli.ups_infer.request.Request",
        ),
    )
}
CHECKPOINT = "checkpoint"
VERDICT = "herdcli.evaluation.verdicts.verdict_text"  # (kind, row of metrics, value) -> `ok`, or the problem in a few words


def kinds_with(field: str) -> list[str]:
    """Return the kinds whose entry has `metrics`, `plots`, `apply`, `sample`, `imports`, `harmonium` or another of its fields."""
    return [kind.name for kind in KINDS.values() if getattr(kind, field)]


def kinds_exporting(form: str) -> list[str]:
    """Return the kinds that can be written in a format of other programs."""
    return [kind.name for kind in KINDS.values() if form in kind.exports]


def plots_by_kind() -> str:
    """Return the plots of all kinds as text, grouping kinds that have the same ones: `rbm, dbn: filters, trace.  ica: spectra.`"""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name in kinds_with("plots"):
        kinds.setdefault(tuple(KINDS[name].plots), []).append(name)
    return "  ".join(f"{', '.join(names)}: {', '.join(plots)}." for plots, names in kinds.items())


def kind_for_value(value: Any) -> Kind:
    """Return the kind whose newest dataclass is `value`, or the class of `value`."""
    part = value if isinstance(value, type) else type(value)
    path = f"{part.__module__}.{part.__qualname__}"
    for kind in KINDS.values():
        if kind.versions[-1] == path:
            return kind
    raise TypeError(f"{path} is the dataclass of no artifact kind")


def find_kind(name: str, *, where: str | None = None) -> Kind:
    """Return the kind with a name that was read from a file."""
    if name not in KINDS:
        hint = "update herd, since a newer version may know it: pip install --upgrade herdcli"
        raise DataError(f"is of kind '{name}', which this version of herd does not know", where=where, hint=hint)
    return KINDS[name]


def upgrade(value: Any, kind: Kind, version: int) -> Any:
    """Return a value that was read in an older version, upgraded to the newest."""
    for _ in range(version, kind.version):
        value = value.upgrade()
    return value
