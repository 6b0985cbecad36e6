"""Whether units, images and manifests fit the program, each other and the rules they are written by: what can be told offline.

`LEASEHOLD_BIN` is the program.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import tomllib
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROGRAM = os.environ.get("LEASEHOLD_BIN", "leasehold")
SHIPPED = {
    "/etc/leasehold/serve.toml": [HERE / "etc/serve.toml", HERE / "kubernetes/serve.example.toml"],
    "/etc/leasehold/manager.toml": [HERE / "etc/manager.toml", HERE / "kubernetes/manager.toml"],
}


class Strict(yaml.SafeLoader):
    """YAML in which nothing is said twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(None, None, f"a key is given twice: {keys}", node.start_mark)
        return super().construct_mapping(node, deep)


def read(path: Path) -> list[Any]:
    """The documents of a file."""
    return list(yaml.load_all(path.read_text(), Strict))


def kubernetes() -> list[dict[str, Any]]:
    """Every object for Kubernetes."""
    files = sorted((HERE / "kubernetes").glob("*.yaml"))
    return [each for file in files if file.name != "kustomization.yaml" for each in read(file)]


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [each for each in kubernetes() if each["kind"] in kinds]


def workloads() -> dict[str, dict[str, Any]]:
    """What a pod of each workload is made of, by name."""
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in of_kind("Deployment", "StatefulSet")}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = read(HERE / "docker/compose.yaml")[0]
    return found


def stages() -> dict[str, list[str]]:
    """The instructions of the Dockerfile's stages; one that begins with another has its instructions too."""
    text = (HERE / "docker/Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (line for line in text.splitlines() if line and not line.startswith("#")):
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            lines = found[match[2]] = [line, *found.get(match[1], [])]
        else:
            lines.append(line)
    return found


def units() -> dict[str, dict[str, str]]:
    """What the units say of their services."""
    found = {}
    for file in (HERE / "systemd").glob("*.service"):
        lines = (line.partition("=") for line in file.read_text().splitlines() if re.match(r"[A-Z]\w*=", line))
        found[file.stem] = {name: value for name, _, value in lines}
    return found


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Everything that the program is started with, and where that stands."""
    for name, unit in units().items():
        yield f"{name}.service", shlex.split(unit["ExecStart"])[1:]
    for name, instructions in stages().items():
        for line in instructions:
            if line.startswith("CMD "):
                yield f"the image {name}", json.loads(line.removeprefix("CMD "))
    for name, pod in workloads().items():
        yield f"the pods of {name}", pod["containers"][0]["args"]
    for name in ("control-plane", "manager"):
        yield f"the service {name}", compose()["services"][name]["command"]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


class Program(unittest.TestCase):
    def test_every_command_line_is_one_that_the_program_takes(self) -> None:
        found = list(command_lines())
        self.assertEqual(len(found), 8)
        for where, line in found:
            command, *options = line
            self.assertEqual((command in ("serve", "manager"), options[0]), (True, "--config"), where)
            for file in SHIPPED[options[1]]:
                # The options in the file are looked at as well; those of the line before --help.
                taken = subprocess.run(
                    [PROGRAM, command, "--config", str(file), *options[2:], "--help"], capture_output=True, text=True
                )
                self.assertEqual(taken.returncode, 0, f"{where} with {file}: {taken.stderr}")

    def test_what_the_program_would_not_take_is_found(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('listne = "127.0.0.1:1"\n')
            file.flush()
            for line in (["--config", file.name], ["--no-such-option"]):
                self.assertNotEqual(subprocess.run([PROGRAM, "serve", *line, "--help"], capture_output=True).returncode, 0)

    def test_managers_understand_the_files_that_are_shipped(self) -> None:
        for file in SHIPPED["/etc/leasehold/manager.toml"]:
            self.assertEqual(tomllib.loads(file.read_text())["runner_id"], "${HOSTNAME}")
        directory = self.enterContext(tempfile.TemporaryDirectory())
        Path(directory, "api-key").write_text("lh_0_0")
        for file in SHIPPED["/etc/leasehold/manager.toml"]:
            here = re.sub(r'"/etc/leasehold/(secrets|manager\.d)/', f'"{directory}/', file.read_text())
            here = here.replace("/var/lib/leasehold-manager", directory)
            copy = Path(directory, "manager.toml")
            copy.write_text(here)
            environment = {**os.environ, "HOSTNAME": "manager-0"}
            checked = subprocess.run(
                [PROGRAM, "manager", "--check", "--config", str(copy)], env=environment, capture_output=True, text=True
            )
            self.assertEqual(checked.returncode, 0, f"{file}: {checked.stderr}")

    def test_the_control_plane_starts_with_what_prepare_makes(self) -> None:  # proves R238
        directory = self.enterContext(tempfile.TemporaryDirectory())
        secrets = Path(directory, "secrets")
        subprocess.run([HERE / "docker/prepare", secrets], check=True)
        made = {file.name: file.read_bytes() for file in secrets.iterdir()}
        self.assertLessEqual(set(each["file"].removeprefix("./secrets/") for each in compose()["secrets"].values()), set(made))
        self.assertTrue(all(file.stat().st_mode & 0o077 == 0 for file in secrets.iterdir()), "nobody else reads them")
        subprocess.run([HERE / "docker/prepare", secrets], check=True)
        self.assertEqual({file.name: file.read_bytes() for file in secrets.iterdir()}, made, "what is there stays")

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        # The database of this test is a file; all else is as it was made.
        options = re.sub(r'database = ".*"', f'database = "sqlite:{directory}/leases.db"', made["serve.toml"].decode())
        options = options.replace("/etc/leasehold/tls", str(secrets)).replace(":7400", f":{port}").replace("0.0.0.0", "127.0.0.1")
        file = Path(directory, "serve.toml")
        file.write_text(options)
        create = [PROGRAM, "keys", "create", "--json", "--role", "member", "--config", file]
        key = json.loads(subprocess.run(create, check=True, capture_output=True).stdout)["key"]
        log = self.start(directory, ["serve", "--config", str(file)], {})
        # As the health check of the container does it.
        asked = [word.replace("/etc/leasehold/secrets", str(secrets)).replace("7400", str(port)) for word in self.health_check()]
        self.wait(lambda: subprocess.run(asked, capture_output=True).returncode == 0, log)

        # A manager as in a container trusts this authority where its environment says so, and else nobody.
        Path(directory, "api-key").write_text(key)
        told = (HERE / "kubernetes/manager.toml").read_text().replace("https://control-plane:7400", f"https://127.0.0.1:{port}")
        told = told.replace("/etc/leasehold/secrets", directory).replace("127.0.0.1:8070", "off")
        for name, trusts, says in (("stranger", {}, "not registered"), ("manager-0", {"SSL_CERT_FILE": str(secrets / "ca.crt")}, '"registered"')):
            Path(directory, name).mkdir()
            copy = Path(directory, f"{name}.toml")
            copy.write_text(told.replace("/var/lib/leasehold-manager", f"{directory}/{name}"))
            said = self.start(directory, ["manager", "--config", str(copy)], {"HOSTNAME": name, **trusts})
            self.wait(lambda: says in said.read_text(), said)

    def start(self, directory: str, line: list[str], env: dict[str, str]) -> Path:
        """Starts the program until the test is over; answers where its log is."""
        log = Path(directory, f"{Path(line[-1]).stem}.log")
        env = {**{name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}, **env}
        with log.open("w") as file:
            process = subprocess.Popen([PROGRAM, *line], stdout=file, stderr=file, env=env)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return log

    def wait(self, holds: Callable[[], bool], log: Path) -> None:
        until = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), until, log.read_text())
            time.sleep(0.1)

    def health_check(self) -> list[str]:
        kind, *command = compose()["services"]["control-plane"]["healthcheck"]["test"]
        self.assertEqual(kind, "CMD")
        found: list[str] = command
        return found


class Rules(unittest.TestCase):
    def test_nothing_is_said_twice_and_everything_has_a_name(self) -> None:
        for file in HERE.rglob("*.y*ml"):
            self.assertTrue(all(isinstance(each, dict) for each in read(file)), file)
        with self.assertRaises(yaml.YAMLError):
            yaml.load("a: 1\na: 2", Strict)
        named = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in kubernetes()]
        self.assertEqual(len(set(named)), len(named))
        listed = read(HERE / "kubernetes/kustomization.yaml")[0]["resources"]
        files = {file.name for file in (HERE / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
        self.assertEqual(set(listed), files)

    def test_kustomize_makes_the_same_of_it(self) -> None:
        if shutil.which("kubectl") is None:
            print("SKIPPED: there is no kubectl")
            return
        made = subprocess.run(["kubectl", "kustomize", HERE / "kubernetes"], check=True, capture_output=True, text=True).stdout
        found = list(yaml.safe_load_all(made))
        self.assertEqual(len(found), len(kubernetes()) + 1, "all that is listed, and the map of options")
        self.assertTrue(all(each["metadata"].get("namespace", "leasehold") == "leasehold" for each in found))

    def test_whoever_is_stopped_has_longer_than_its_leases_last(self) -> None:
        for file in SHIPPED["/etc/leasehold/manager.toml"]:
            told = tomllib.loads(file.read_text())
            needed = max(told["lease_ttl_seconds"], told["drain_timeout_seconds"] + told["worker_stop_grace_seconds"])
            for where, grace in {
                "Kubernetes": workloads()["manager"]["terminationGracePeriodSeconds"],
                "systemd": seconds(units()["leasehold-manager"]["TimeoutStopSec"]),
                "compose": seconds(compose()["services"]["manager"]["stop_grace_period"]),
            }.items():
                # What comes before SIGTERM counts as well: at most five seconds.
                self.assertGreater(grace, needed + 5, f"{where} with {file}")
        plane = workloads()["control-plane"]
        pause = int(plane["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        self.assertGreater(plane["terminationGracePeriodSeconds"], pause + 10)

    def test_pods_are_confined_and_watched(self) -> None:
        for name, pod in workloads().items():
            self.assertFalse(pod["automountServiceAccountToken"] or pod["enableServiceLinks"], name)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0, name)
            self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", name)
            for container in pod["containers"]:
                confined = container["securityContext"]
                self.assertTrue(confined["readOnlyRootFilesystem"], name)
                self.assertFalse(confined["allowPrivilegeEscalation"], name)
                self.assertEqual(confined["capabilities"], {"drop": ["ALL"]}, name)
                self.assertLessEqual(
                    {"startupProbe", "livenessProbe", "readinessProbe", "lifecycle", "resources"}, set(container), name
                )
                self.assertIn("preStop", container["lifecycle"], name)
                self.assertIn("memory", container["resources"]["limits"], name)
                self.assertRegex(container["image"], r":\d+\.\d+\.\d+$", name)
                version = tomllib.loads((HERE / "../Cargo.toml").read_text())["workspace"]["package"]["version"]
                self.assertTrue(container["image"].endswith(f":{version}"), name)

    def test_names_come_from_the_pod(self) -> None:
        for name, variable in {"control-plane": "LEASEHOLD_NAME", "manager": "HOSTNAME"}.items():
            env = {each["name"]: each for each in workloads()[name]["containers"][0]["env"]}
            self.assertEqual(env[variable]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name", name)

    def test_secrets_are_files_and_in_none_of_these(self) -> None:
        self.assertEqual(of_kind("Secret"), [])
        for name, pod in workloads().items():
            for variable in pod["containers"][0]["env"]:
                self.assert_harmless(variable["name"], variable.get("value", ""))
                self.assertNotIn("secretKeyRef", variable.get("valueFrom", {}), name)
            for volume in pod["volumes"]:
                if "secret" in volume:
                    self.assertEqual(volume["secret"]["defaultMode"], 0o440, name)
        for service in compose()["services"].values():
            for variable, value in service.get("environment", {}).items():
                self.assert_harmless(variable, value)
        self.assertTrue(all(set(each) == {"file"} for each in compose()["secrets"].values()))
        for instructions in stages().values():
            for line in instructions:
                self.assertNotRegex(line, r"(?i)^(ARG|ENV)\b.*(KEY|PASSWORD|SECRET|TOKEN)")
        for file in (HERE / "etc/manager.toml", HERE / "kubernetes/manager.toml"):
            for field in tomllib.loads(file.read_text()):
                self.assertNotIn(field, ("api_key", "database_url", "events_url"), file)

    def assert_harmless(self, variable: str, value: str) -> None:
        if re.search(r"KEY|PASSWORD|SECRET|TOKEN|URL", variable):
            self.assertTrue(variable.endswith("_FILE") and value.startswith("/"), f"{variable} has a secret in it")

    def test_images_do_not_run_as_root(self) -> None:
        found = stages()
        for name in ("control-plane", "manager"):
            users = [line.removeprefix("USER ") for line in found[name] if line.startswith("USER ")]
            self.assertEqual(users[-1], "10001:10001", name)
            self.assertEqual(workloads()[name]["securityContext"]["runAsUser"], 10001)
            entry = [line for line in found[name] if line.startswith("ENTRYPOINT ")]
            self.assertEqual(json.loads(entry[-1].removeprefix("ENTRYPOINT "))[0], "/usr/bin/tini", name)
        for name, unit in units().items():
            self.assertIn(unit["User"], ("leasehold", "leasehold-manager"), name)
            self.assertEqual((unit["NoNewPrivileges"], unit["ProtectSystem"], unit["UMask"]), ("yes", "strict", "0077"), name)
        self.assertEqual(units()["leasehold-manager"]["KillMode"], "mixed", "no process of a worker outlives it")
        for name in ("control-plane", "manager"):
            service = compose()["services"][name]
            self.assertTrue(service["user"].startswith("${LEASEHOLD_UID:?") and service["read_only"], name)
            self.assertEqual((service["cap_drop"], service["security_opt"]), (["ALL"], ["no-new-privileges:true"]), name)
            self.assertIn("healthcheck", service)

    def test_what_is_mounted_is_there_and_what_is_read_is_mounted(self) -> None:
        for name, pod in workloads().items():
            volumes = {each["name"] for each in pod["volumes"]}
            mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
            self.assertEqual(set(mounts.values()), volumes, name)
        read_by = {"control-plane": HERE / "kubernetes/serve.example.toml", "manager": HERE / "kubernetes/manager.toml"}
        for name, file in read_by.items():
            paths = re.findall(r'"(/(?:etc|var)/[^"]+)"', file.read_text())
            self.assertGreaterEqual(len(paths), 2, file)
            mounts = [each["mountPath"] for each in workloads()[name]["containers"][0]["volumeMounts"]]
            service = compose()["services"][name]
            bound = [each["target"] for each in service["secrets"]] + [each.split(":")[0] for each in service["tmpfs"]]
            for path in paths:
                self.assertTrue(
                    any(path == each or path.startswith(f"{each}/") for each in mounts), f"{path} in the pods of {name}"
                )
                self.assertIn(path, bound, f"{path} in the service {name}")

    def test_services_policies_and_budgets_mean_pods_that_there_are(self) -> None:
        labels = {
            name: each["spec"]["template"]["metadata"]["labels"]
            for each in of_kind("Deployment", "StatefulSet")
            for name in [each["metadata"]["name"]]
        }

        def meant(selector: dict[str, str]) -> list[str]:
            return [name for name, has in labels.items() if selector.items() <= has.items()]

        for each in of_kind("Service"):
            self.assertEqual(meant(each["spec"]["selector"]), [each["metadata"]["name"]])
            for port in each["spec"].get("ports", []):
                names = [has["name"] for has in workloads()[each["metadata"]["name"]]["containers"][0]["ports"]]
                self.assertIn(port["targetPort"], names)
        for each in of_kind("Deployment", "StatefulSet"):
            self.assertEqual(meant(each["spec"]["selector"]["matchLabels"]), [each["metadata"]["name"]])
        for kind, where in {"PodDisruptionBudget": "selector", "NetworkPolicy": "podSelector"}.items():
            covered = {
                name for each in of_kind(kind) if each["spec"][where] for name in meant(each["spec"][where]["matchLabels"])
            }
            self.assertEqual(covered, set(labels), f"every pod has a {kind}")

    def test_nobody_comes_in_or_goes_out_unless_it_is_named(self) -> None:  # proves R238
        policies = {each["metadata"]["name"]: each["spec"] for each in of_kind("NetworkPolicy")}
        self.assertTrue(all(each["policyTypes"] == ["Ingress", "Egress"] for each in policies.values()))
        self.assertEqual(policies["nothing"], {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        self.assertNotIn("ingress", policies["manager"])
        plane = {port["containerPort"] for port in workloads()["control-plane"]["containers"][0]["ports"]}
        self.assertEqual({port["port"] for rule in policies["control-plane"]["ingress"] for port in rule["ports"]}, plane)
        for each in policies.values():
            for rule in each.get("ingress", []):
                self.assertTrue(rule["from"] and rule["ports"])
            for rule in each.get("egress", []):
                self.assertTrue(rule["to"] and rule["ports"])
        listens = tomllib.loads((HERE / "kubernetes/manager.toml").read_text())["listen"]
        self.assertEqual(listens, "127.0.0.1:8070")
        asked = json.dumps([workloads()["manager"], compose()["services"]["manager"]["healthcheck"]])
        self.assertGreaterEqual(asked.count(f"http://{listens}/"), 5, "probes and hooks ask where it listens")


if __name__ == "__main__":
    unittest.main()
