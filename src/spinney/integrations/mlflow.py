"""An MLflow flavour: models in MLflow's stores and servers, as spinney's own files.

`save_model` and `log_model` write the safe file of `spinney.save`, with a signature, an
example and pinned requirements; `load_model` returns the classifier, and MLflow's
generic ``pyfunc`` interface, its server and its Spark function predict with it.

Examples
--------
>>> import mlflow, spinney.integrations.mlflow  # doctest: +SKIP
>>> with mlflow.start_run():  # doctest: +SKIP
...     info = spinney.integrations.mlflow.log_model(fast, name="model")
>>> spinney.integrations.mlflow.load_model(info.model_uri)  # doctest: +SKIP
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

import numpy as np

from spinney._version import __version__
from spinney.errors import InvalidArgumentError
from spinney.forest.frames import as_known_frame, is_frame
from spinney.integrations import answering, tables
from spinney.integrations.portable import PortableModel
from spinney.persistence.store import load

FLAVOR_NAME = "spinney"
MODEL_FILE = "model.spinney"
METHODS = ("predict", "predict_counted", "predict_proba")


def get_default_pip_requirements() -> list[str]:
    """Return the packages that a model needs, pinned to the installed versions."""
    needed = ("numba", "numpy", "pandas", "scikit-learn", "scipy")
    return [f"spinney=={__version__}", *(f"{name}=={version(name)}" for name in needed)]


def get_default_conda_env() -> Any:
    """Return the conda environment for `get_default_pip_requirements`."""
    _import_mlflow()
    from mlflow.utils.environment import _mlflow_conda_env

    return _mlflow_conda_env(additional_pip_deps=get_default_pip_requirements())


def save_model(
    spinney_model: Any,
    path: str,
    *,
    conda_env: Any = None,
    code_paths: list[str] | None = None,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    pyfunc_predict_fn: str = "predict",
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save a model to a folder in MLflow's format.

    Parameters
    ----------
    spinney_model : fitted classifier of spinney, Forest, trained model, or path
        Anything that `spinney.save` or `spinney.read_model` takes.
    path : str
        A folder that does not exist yet.
    conda_env, code_paths, mlflow_model
        As in the flavours of MLflow.
    signature : mlflow.models.ModelSignature, default=None
        Input and output schema. None to infer it from the model: its feature names, or
        an array of its width, and the type of its labels.
    input_example : array or data frame, default=None
        Some rows, stored with the model. None for two rows of zeros; False for none.
    pip_requirements, extra_pip_requirements
        As in the flavours of MLflow; by default `get_default_pip_requirements`.
    pyfunc_predict_fn : {"predict", "predict_counted", "predict_proba"}
        What the generic interface returns: labels; a data frame of labels and numbers
        of trees; or probabilities, a column for each class.
    metadata : dict, default=None
        As in the flavours of MLflow.

    Raises
    ------
    InvalidArgumentError
        If the model does not have the method.
    ImportError
        If MLflow is not installed.
    """
    mlflow = _import_mlflow()
    from mlflow.models import Model
    from mlflow.models.utils import _save_example
    from mlflow.utils.environment import (
        _CONDA_ENV_FILE_NAME,
        _CONSTRAINTS_FILE_NAME,
        _PYTHON_ENV_FILE_NAME,
        _REQUIREMENTS_FILE_NAME,
        _process_conda_env,
        _process_pip_requirements,
        _PythonEnv,
        _validate_env_arguments,
    )
    from mlflow.utils.file_utils import write_to
    from mlflow.utils.model_utils import (
        _validate_and_copy_code_paths,
        _validate_and_prepare_target_save_path,
    )

    _validate_env_arguments(conda_env, pip_requirements, extra_pip_requirements)
    if pyfunc_predict_fn not in METHODS:
        msg = (
            f"pyfunc_predict_fn must be one of {', '.join(METHODS)}, got "
            f"{pyfunc_predict_fn!r}."
        )
        raise InvalidArgumentError(msg)
    portable = PortableModel(spinney_model, with_content=True)
    answering.check_can(portable.model, pyfunc_predict_fn)
    _validate_and_prepare_target_save_path(path)
    code_folder = _validate_and_copy_code_paths(code_paths, path)
    meta = Model() if mlflow_model is None else mlflow_model
    if input_example is None:
        input_example = _two_rows(portable.model)
    if signature is None and input_example is not False:
        signature = _signature(portable, input_example, pyfunc_predict_fn)
    if signature is not None:
        meta.signature = signature
    if input_example is not False:
        _save_example(meta, input_example, path)
    if metadata is not None:
        meta.metadata = metadata
    with open(os.path.join(path, MODEL_FILE), "wb") as file:
        file.write(portable.content)
    mlflow.pyfunc.add_to_model(
        meta,
        loader_module="spinney.integrations.mlflow",
        data=MODEL_FILE,
        conda_env=_CONDA_ENV_FILE_NAME,
        python_env=_PYTHON_ENV_FILE_NAME,
        code=code_folder,
    )
    meta.add_flavor(
        FLAVOR_NAME,
        spinney_version=__version__,
        data=MODEL_FILE,
        kind=type(portable.model).__name__,
        predict_fn=pyfunc_predict_fn,
        code=code_folder,
    )
    meta.model_size_bytes = len(portable.content)
    meta.save(os.path.join(path, "MLmodel"))
    if conda_env is None:
        defaults = get_default_pip_requirements() if pip_requirements is None else None
        conda_env, requirements, constraints = _process_pip_requirements(
            defaults, pip_requirements, extra_pip_requirements
        )
    else:
        conda_env, requirements, constraints = _process_conda_env(conda_env)
    import yaml  # a dependency of MLflow

    write_to(os.path.join(path, _CONDA_ENV_FILE_NAME), yaml.safe_dump(conda_env))
    if constraints:
        write_to(os.path.join(path, _CONSTRAINTS_FILE_NAME), "\n".join(constraints))
    write_to(os.path.join(path, _REQUIREMENTS_FILE_NAME), "\n".join(requirements))
    _PythonEnv.current().to_yaml(os.path.join(path, _PYTHON_ENV_FILE_NAME))


def log_model(
    spinney_model: Any,
    artifact_path: str | None = None,
    *,
    name: str | None = None,
    registered_model_name: str | None = None,
    **options: Any,
) -> Any:
    """Log a model to the current run of MLflow.

    Parameters
    ----------
    spinney_model : fitted classifier of spinney, Forest, trained model, or path
        As for `save_model`.
    artifact_path : str, default=None
        Path within the run, for MLflow before version 3.
    name : str, default=None
        Name of the model.
    registered_model_name : str, default=None
        If given, register the model under this name.
    **options : object
        Further arguments of `save_model` and of ``mlflow.models.Model.log``.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        With the URI of the model.
    """
    _import_mlflow()
    from mlflow.models import Model

    import spinney.integrations.mlflow as flavor

    where = {"artifact_path": artifact_path}
    if name is not None:
        where["name"] = name
    return Model.log(
        **where,
        flavor=flavor,
        registered_model_name=registered_model_name,
        spinney_model=spinney_model,
        **options,
    )


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Load a model from MLflow: the classifier or Forest itself.

    Parameters
    ----------
    model_uri : str
        A URI of MLflow (``models:/name/1``, ``runs:/...``) or a path.
    dst_path : str, default=None
        A folder to copy the model to, if it has to be fetched.

    Returns
    -------
    model : Forest or fitted classifier of spinney
        The object that was saved; loading it runs no code from the store.
    """
    _import_mlflow()
    from mlflow.tracking.artifact_utils import _download_artifact_from_uri
    from mlflow.utils.model_utils import _get_flavor_configuration

    folder = _download_artifact_from_uri(model_uri, output_path=dst_path)
    flavor = _get_flavor_configuration(folder, FLAVOR_NAME)
    return load(os.path.join(folder, flavor["data"]))


def _load_pyfunc(path: str) -> _Answering:
    """Return the object that MLflow's generic interface calls."""
    from mlflow.utils.model_utils import _get_flavor_configuration

    folder = path if os.path.isdir(path) else os.path.dirname(path)
    flavor = _get_flavor_configuration(folder, FLAVOR_NAME)
    model = PortableModel(os.path.join(folder, flavor["data"]))
    return _Answering(model, flavor["predict_fn"])


class _Answering:
    """A model behind MLflow's generic interface."""

    def __init__(self, portable: PortableModel, method: str) -> None:
        self._portable = portable
        self._method = method

    def get_raw_model(self) -> Any:
        """Return the classifier or Forest itself."""
        return self._portable.model

    def predict(self, model_input: Any, params: Any = None) -> Any:
        """Predict rows: an array, or a data frame with columns selected by name."""
        import pandas as pd

        rows = as_known_frame(model_input)
        if is_frame(rows):
            if not isinstance(rows, pd.DataFrame):
                rows = rows.to_pandas()
            names = [str(name) for name in rows.columns]
            model = self._portable.model
            wanted = answering.columns_to_read(model, names)
            rows = tables.rows_of_frame(model, rows.set_axis(names, axis=1)[wanted])
        elif not hasattr(rows, "shape"):
            # With a signature, MLflow has converted it or refused it.
            msg = (
                f"Rows must be an array or a data frame, got {type(rows).__name__}. "
                "Pass numpy.asarray(rows) or pandas.DataFrame(rows)."
            )
            raise InvalidArgumentError(msg)
        if self._method == "predict_proba":
            shares = answering.probabilities(self._portable, rows)
            names = answering.probability_names(self._portable.model)
            return pd.DataFrame(shares, columns=names)
        if self._method == "predict_counted":
            labels, n_evaluated = answering.counted(self._portable, rows)
            return pd.DataFrame({"label": labels, "n_evaluated": n_evaluated})
        return answering.labels(self._portable, rows)


def _signature(portable: PortableModel, example: Any, method: str) -> Any:
    from mlflow.models import infer_signature

    answers = _Answering(portable, method).predict(example)
    return infer_signature(example, answers)


def _two_rows(model: Any) -> Any:
    """Return two rows as the model takes them, with feature names if it has them."""
    import pandas as pd

    if getattr(model, "has_preprocessing", False):
        return False  # the input of its steps is unknown
    n_features = answering.width(model)
    zeros = np.zeros((2, n_features))
    names = getattr(model, "feature_names_in_", None)
    return zeros if names is None else pd.DataFrame(zeros, columns=list(names))


def _import_mlflow() -> Any:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError as error:
        msg = (
            "spinney.integrations.mlflow needs MLflow, which is not installed. Install "
            'the extra "mlflow": python -m pip install "spinney[mlflow]"'
        )
        raise ImportError(msg) from error
    return mlflow
