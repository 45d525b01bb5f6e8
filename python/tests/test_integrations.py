"""Tests device measurements in common logging tools. Uses the real packages if they are installed, and fakes if not.

usage: test_integrations.py
"""
import importlib.util
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402
import berth.integrations  # noqa: E402
from berth import readings  # noqa: E402

POWER = "berth/gpu0/power_milliwatts"


class Integrations(unittest.TestCase):
    def setUp(self):
        self.value = 41000.0
        fake = mock.patch.object(readings, "read", lambda: [readings.Reading(types.SimpleNamespace(index=0), "power_milliwatts", self.value)])
        fake.start()
        self.addCleanup(fake.stop)

    def test_each_reading_is_written_once(self):
        written = []
        run = types.SimpleNamespace(log=lambda data, commit: written.append((data, commit)))
        log = berth.integrations.wandb(run, every=1000)
        self.assertEqual([log(step) for step in range(3)], [2, 0, 0])
        self.assertEqual((written[0][0][POWER], written[0][1], len(written)), (41000.0, False, 1))
        for wrong in (lambda: berth.integrations.wandb(None), lambda: berth.integrations.mlflow(None), lambda: berth.integrations.wandb(run, every=-1)):
            self.assertRaises(berth.InvalidRequest, wrong)

    @unittest.skipUnless(importlib.util.find_spec("wandb"), "no wandb")
    def test_weights_and_biases(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"WANDB_SILENT": "true", "WANDB_DIR": folder}):
            import wandb
            run = wandb.init(project="berth-test", mode="offline", dir=folder)
            log = berth.integrations.wandb(run, every=0)
            for step in range(3):
                self.value = 1000.0 * step
                log(step)
                run.log({"loss": 1.0 / (step + 1)})
            self.assertEqual((run.step, run.summary["loss"], run.summary[POWER]), (3, 1.0 / 3, 2000.0))
            run.finish()

    @unittest.skipUnless(importlib.util.find_spec("mlflow"), "no MLflow")
    def test_mlflow(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}):
            import mlflow
            mlflow.set_tracking_uri(pathlib.Path(folder).as_uri())
            mlflow.set_experiment("berth")
            with mlflow.start_run() as run:
                log = berth.integrations.mlflow(mlflow, every=0)
                for step in range(3):
                    self.value = 1000.0 * step
                    log(step)
            found = mlflow.MlflowClient().get_metric_history(run.info.run_id, POWER)
            self.assertEqual([(one.step, one.value) for one in sorted(found, key=lambda one: one.step)], [(0, 0.0), (1, 1000.0), (2, 2000.0)])


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)  # an int, because wandb's exit hook does not accept a bool
