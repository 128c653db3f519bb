"""A runtime for MLServer, with the V2 inference protocol of KServe and Seldon.

MLServer calls `load` once in each of its processes and `predict` for each request. In
`model-settings.json` next to the model file:

    {
      "name": "triage",
      "implementation": "mlserver_runtime.SpinneyRuntime",
      "parameters": {"uri": "./model.spinney"}
    }

and this file on Python's path: `PYTHONPATH=examples mlserver start FOLDER`. A
request has one input of shape (rows, features), or one input per column, by name. The
response has the outputs `label`, `n_evaluated` and, if the model has it, `probability`.
"""

from __future__ import annotations

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import get_model_uri

from spinney.integrations import answering, tables
from spinney.integrations.portable import PortableModel


class SpinneyRuntime(MLModel):
    """Serves a spinney file with the V2 inference protocol."""

    async def load(self) -> bool:
        self._portable = PortableModel(await get_model_uri(self.settings))
        self._outputs = tables.chosen_outputs(self._portable.model, None)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        try:
            rows = self._rows(payload)
            answers = tables.answers(self._portable, rows, self._outputs)
        except (TypeError, ValueError) as error:
            raise InferenceError(str(error)) from error
        outputs = []
        for name, values in answers.items():
            if values.dtype.kind in "UO":
                texts = [str(value) for value in values]
                outputs.append(StringCodec.encode_output(name, texts))
            else:
                outputs.append(NumpyCodec.encode_output(name, values))
        return InferenceResponse(
            model_name=self.name, model_version=self.version, outputs=outputs
        )

    def _rows(self, payload):
        """Return the rows of a request: one table, or one input per column."""
        inputs = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
        if len(inputs) == 1:
            (table,) = inputs.values()
            if table.ndim == 2:
                return table
        import pandas as pd

        model = self._portable.model
        wanted = answering.columns_to_read(model, list(inputs))
        frame = pd.DataFrame({name: np.ravel(inputs[name]) for name in wanted})
        return tables.rows_of_frame(model, frame)
