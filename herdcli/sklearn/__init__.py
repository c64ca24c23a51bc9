"""Estimators for scikit-learn: commands of herd for use in a Pipeline, a GridSearchCV or a ColumnTransformer.  Extra `sklearn`.

    from herdcli.sklearn import RBM, NHERDClassifier
    make_pipeline(RBM(64, epochs=20), NHERDClassifier()).fit(X, y)

Each estimator calls the function of `herdcli.engine` with the name of its command, and so gives the same result as the command.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("herdcli.sklearn needs scikit-learn: pip install 'herdcli[sklearn]'") from error

from herdcli.sklearn.classifiers import HerdingClassifier, NHERDClassifier
from herdcli.sklearn.features import DBN, ICA, RBM
from herdcli.sklearn.imputing import EMImputer
from herdcli.sklearn.in_time import HMM, LDS
from herdcli.sklearn.networks import MarkovNetwork
from herdcli.sklearn.perceptrons import PerceptronClassifier, PerceptronRegressor
from herdcli.sklearn.regression import GLMRegressor
from herdcli.sklearn.selection import KernelHerder

__all__ = [
    "DBN",
    "HMM",
    "ICA",
    "LDS",
    "RBM",
    "EMImputer",
    "GLMRegressor",
    "HerdingClassifier",
    "KernelHerder",
    "MarkovNetwork",
    "NHERDClassifier",
    "PerceptronClassifier",
    "PerceptronRegressor",
]
