#!/usr/bin/env python3
"""integrations/kubernetes/chart gives the objects of the plain manifests, and refuses unknown keys. The examples beside it name what Berth offers.

It renders with Helm where the Python package helm-python-sdk or the program `helm` is there, and always with the few lines below, which know only
what these templates use.
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "integrations/kubernetes"
CHART = FOLDER / "chart"
SDK = importlib.util.find_spec("helm_python") is not None


def merged(one, other):
    return {**one, **{key: merged(one[key], value) if isinstance(value, dict) and isinstance(one.get(key), dict) else value for key, value in other.items()}}


def own(template, values, namespace):
    """The text of a template with `if`, `end`, and values through quote or toJson."""
    out, shown = [], [True]
    for part in re.split(r"(\s*\{\{-.*?\}\}|\{\{.*?\}\})", template):
        words = part.strip().strip("{}-").split()
        if "{{" not in part:
            out.append(part if all(shown) else "")
        elif words[0] == "if":
            shown.append(bool(values[words[1].removeprefix(".Values.")]))
        elif words[0] == "end":
            shown.pop()
        elif all(shown):
            value = namespace if words[0] == ".Release.Namespace" else values[words[0].removeprefix(".Values.")]
            filters = {(): str, ("|", "quote"): lambda one: json.dumps(str(one)), ("|", "toJson"): json.dumps}
            out.append(filters[tuple(words[1:])](value))
    return "".join(out)


def rendered_by_own(values, namespace="berth"):
    everything = merged(yaml.safe_load((CHART / "values.yaml").read_text()), values)
    return [own(path.read_text(), everything, namespace) for path in sorted((CHART / "templates").glob("*.yaml"))]


def rendered_by_sdk(values, namespace="berth"):
    import helm_python
    chart = helm_python.Chart.load(CHART)
    chart.validate_schema(values)
    return list(chart.render(values, name="berth", namespace=namespace).values())


def rendered_by_helm(values, namespace="berth"):
    done = subprocess.run(["helm", "template", "berth", str(CHART), "--namespace", namespace, "--values", "-"], input=json.dumps(values),
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise ValueError(done.stderr)
    return [done.stdout]


RENDERERS = {"own": rendered_by_own, **({"helm-python-sdk": rendered_by_sdk} if SDK else {}), **({"helm": rendered_by_helm} if shutil.which("helm") else {})}
WITH_HELM = [render for name, render in RENDERERS.items() if name != "own"]
WITHOUT = "neither helm-python-sdk nor helm is here"


def objects(texts):
    return {one["kind"]: one for text in texts for one in yaml.safe_load_all(text) if one}


def plain():
    return objects([(FOLDER / "device-plugin.yaml").read_text()])


class Chart(unittest.TestCase):
    maxDiff = None

    def test_without_values_it_is_the_plain_manifest(self):
        for name, render in RENDERERS.items():
            with self.subTest(name):
                self.assertEqual(objects(render({})), plain())

    def test_each_value_changes_what_it_says(self):
        values = {"image": "r/berth:2", "imagePullPolicy": "Always", "memoryStep": "2GiB", "pass": "cdi", "interval": "2s", "runtimeClassName": "",
                  "priorityClassName": "", "nodeSelector": {"pool": "gpu"}, "tolerations": [], "resources": {"limits": {"memory": "1Gi"}},
                  "createNamespace": False}
        # Shares and memory exclude each other, so shares are tested at the end.
        self.assertEqual({*values, "shares"}, set(yaml.safe_load((CHART / "values.yaml").read_text())), "a value without a test")
        for name, render in RENDERERS.items():
            with self.subTest(name):
                found = objects(render(values, "other"))
                wanted = plain()
                del wanted["Namespace"]
                for one in wanted.values():
                    one["metadata"]["namespace"] = "other"
                pod = wanted["DaemonSet"]["spec"]["template"]["spec"]
                del pod["runtimeClassName"], pod["priorityClassName"]
                pod.update(nodeSelector={"berth.dev/offer": "true", "pool": "gpu"}, tolerations=[])
                pod["containers"][0].update(image="r/berth:2", imagePullPolicy="Always", resources={"requests": {"cpu": "10m", "memory": "64Mi"},
                                                                                                   "limits": {"memory": "1Gi"}},
                                            args=["k8s", "device-plugin", "--pass", "cdi", "--memory-step", "2GiB", "--interval", "2s", "--json"])
                self.assertEqual(found, wanted)
                args = objects(render({"shares": 4}))["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"]
                self.assertEqual(args, ["k8s", "device-plugin", "--pass", "env", "--shares", "4", "--json"])

    @unittest.skipUnless(WITH_HELM, WITHOUT)
    def test_helm_refuses_unknown_keys_and_wrong_values(self):
        for render in WITH_HELM:
            for wrong in ({"share": 4}, {"resources": {"limit": {}}}, {"tolerations": [{"kee": "x"}]}, {"resources": {"limits": {"gpu": 1}}},
                          {"shares": 65}, {"shares": "4"}, {"memoryStep": "1"}, {"shares": 2, "memoryStep": "1GiB"}, {"pass": "all"}, {"interval": "often"}, {"image": ""}, {"nodeSelector": {"a": 1}}):
                with self.subTest(str(wrong)), self.assertRaises(Exception) as raised:
                    render(wrong)
                self.assertRegex(str(raised.exception).lower(), "at ./|additional|at root|specification", wrong)

    def test_no_object_of_the_schema_takes_unknown_keys(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))  # Helm adds `global`

        def check(one, path):
            if one.get("type") == "object" and path != "/properties/global":
                self.assertIn("additionalProperties", one, path)
                self.assertNotEqual(one["additionalProperties"], True, path)
            for key, value in one.items():
                if isinstance(value, dict):
                    check(value, f"{path}/{key}")
        check(schema, "")

    def test_the_examples_name_what_berth_offers(self):
        page = (ROOT / "docs/kubernetes.md").read_text()
        source = "".join(path.read_text() for folder in ("watch", "serve", "engines") for path in (ROOT / "src" / folder).rglob("*.[ch]pp"))
        for path in sorted((FOLDER / "examples").glob("*.yaml")):
            text = path.read_text()
            found = [one for one in yaml.safe_load_all(text) if one]
            self.assertTrue(found and all(one["apiVersion"] and one["kind"] and one["metadata"]["name"] for one in found), path)
            self.assertIn(f"integrations/kubernetes/examples/{path.name}", page)
            for name in set(re.findall(r"\bberth_(?:device|jobs)[a-z_]*", text)):
                self.assertIn(name.removeprefix("berth_device_"), source, f"{path.name}: {name}")
            for name in set(re.findall(r"\bberth\.dev/(?!offer)([a-z-]+)", text)):
                self.assertIn(name, ("gpu", "gpu-share", "gpu-memory"), path.name)


if __name__ == "__main__":
    if not WITH_HELM:
        print(f"not run with Helm: {WITHOUT}")
    unittest.main()
