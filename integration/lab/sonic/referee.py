#!/usr/bin/env python3
"""SONiC's own configuration code, asked by lines of JSON on the standard input and answered by lines on the standard output.

Runs in the root that root.sh makes, beside a redis at SONiC's place. The first line is {"ready": true}. Requests:
  {"do": "validate", "config": C}     models, and what the updater checks beside them
  {"do": "load", "config": C}         the database holds C and nothing else, unchecked
  {"do": "read"}                      {"config": what the database holds}
  {"do": "dry-run", "patch": P}       {"states": [the configuration after each step]}; the database stays as it is
  {"do": "apply", "patch": P}         the same for the database
  {"do": "checkpoint", "name": N}, {"do": "roll-back", "name": N}
What SONiC refuses is {"refused": why}; everything else that goes wrong ends the program.
"""

import copy
import json
import os
import shutil
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "w")
# What SONiC prints is for people.
os.dup2(2, 1)


def answer(value):
    ANSWERS.write(json.dumps(value) + "\n")
    ANSWERS.flush()


os.makedirs("/var/run/redis/sonic-db", exist_ok=True)
shutil.copy("/usr/local/share/sonic/database_config.json", "/var/run/redis/sonic-db/database_config.json")

import jsonpatch  # noqa: E402
import sonic_yang  # noqa: E402
from generic_config_updater import change_applier  # noqa: E402
from generic_config_updater import generic_updater as updater  # noqa: E402
from generic_config_updater import gu_common as common  # noqa: E402
from swsscommon.swsscommon import ConfigDBConnector  # noqa: E402

# After each change the updater waits for daemons that are not here.
change_applier.time = type("Time", (), {"sleep": staticmethod(lambda _: None), "time": staticmethod(time.time)})
# Nor is there one of them to restart.
change_applier.ChangeApplier.updater_conf = {"tables": {}, "services": {}}

FORMAT = updater.ConfigFormat.CONFIGDB
# The models are loaded once.
WRAPPER = common.ConfigWrapper()
MODELS = WRAPPER.create_sonic_yang_with_loaded_models()
common.ConfigWrapper.create_sonic_yang_with_loaded_models = lambda self: MODELS


class Steps:
    """Keeps the configuration after each step of a dry run."""

    def __init__(self, config):
        self.states = [copy.deepcopy(config)]

    def apply(self, config, change):
        changed = change.apply(config, in_place=False)
        self.states.append(copy.deepcopy(changed))
        self.wrapper.imitated_config_db = changed
        return changed

    def remove_backend_tables_from_config(self, config):
        return config


def dry_run(patch):
    config = common.get_config_db_as_json()
    steps = Steps(config)
    steps.wrapper = common.DryRunConfigWrapper(config)
    factory = updater.GenericUpdateFactory()
    factory.get_config_wrapper = lambda dry_run: steps.wrapper
    factory.get_change_applier = lambda dry_run, wrapper: steps
    updater.GenericUpdater(factory).apply_patch(jsonpatch.JsonPatch(patch), FORMAT, False, True, False, [])
    return {"states": steps.states}


def load(config):
    database = ConfigDBConnector()
    database.connect(False)
    client = database.get_redis_client("CONFIG_DB")
    client.flushdb()
    database.mod_config(config)
    # Whoever connects waits for this.
    client.set("CONFIG_DB_INITIALIZED", "1")
    return {}


def validate(config):
    valid, why = common.ConfigWrapper().validate_config_db_config(config)
    return {} if valid else {"refused": str(why)}


def apply(patch):
    updater.GenericUpdater().apply_patch(jsonpatch.JsonPatch(patch), FORMAT, False, False, False, [])
    return {}


def checkpoint(name):
    updater.GenericUpdater().checkpoint(name, False)
    return {}


def roll_back(name):
    updater.GenericUpdater().rollback(name, False, False, False, [])
    return {}


DO = {
    "validate": lambda request: validate(request["config"]),
    "load": lambda request: load(request["config"]),
    "read": lambda request: {"config": common.get_config_db_as_json()},
    "dry-run": lambda request: dry_run(request["patch"]),
    "apply": lambda request: apply(request["patch"]),
    "checkpoint": lambda request: checkpoint(request["name"]),
    "roll-back": lambda request: roll_back(request["name"]),
}
REFUSALS = (
    common.GenericConfigUpdaterError,
    common.IllegalPatchOperationError,
    common.EmptyTableError,
    sonic_yang.SonicYangException,
    jsonpatch.JsonPatchException,
    ValueError,
)

answer({"ready": True})
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer(DO[request["do"]](request))
    except REFUSALS as why:
        answer({"refused": f"{type(why).__name__}: {why}"})
