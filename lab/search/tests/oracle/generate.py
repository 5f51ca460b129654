#!/usr/bin/env python3
"""Writes devices.json: what the package MLRsearch of PyPI finds on simulated devices, for tests/oracle.rs.

Usage: generate.py >devices.json, with MLRsearch 1.2.1 installed.

A device answers each trial from its rate and duration alone; `lost` says how, and tests/oracle.rs says the same in Rust. A number
of frames is rounded to the nearest, halves upwards, and a share of them down.
"""

import json
import math
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

MIN_PPS, MAX_PPS = 1e4, 1e7

DEVICES = [
    # Carries `limit` packets a second, and loses the rest.
    {"name": "sharp-low", "limit": 12_345.0},
    {"name": "sharp", "limit": 1_234_567.0},
    {"name": "sharp-high", "limit": 9_876_543.0},
    {"name": "beyond-the-range", "limit": 2e7},
    {"name": "below-the-range", "limit": 5e3},
    # Loses above `knee` a share that grows with the square of how far the rate is above it.
    {"name": "soft-flat", "limit": 8e6, "knee": 1e6, "slope": 0.02},
    {"name": "soft", "limit": 6e6, "knee": 1.5e6, "slope": 0.5},
    {"name": "soft-steep", "limit": 5e6, "knee": 3.3e6, "slope": 30.0},
    # Loses a share at every rate.
    {"name": "leaks-a-little", "limit": 2.2e6, "leak": 0.001},
    {"name": "leaks-just-too-much", "limit": 2.2e6, "leak": 0.006},
    {"name": "leaks-at-the-goal", "limit": 4.4e6, "leak": 0.0049},
    # Sends a share of the packets twice above `doubles_above`, and loses none of them.
    {"name": "doubles-little", "limit": 3e6, "doubles_above": 7e5, "doubled": 0.002},
    {"name": "doubles-much", "limit": 3e6, "doubles_above": 7e5, "doubled": 0.02},
    {"name": "doubles-and-leaks", "limit": 3e6, "leak": 0.003, "doubles_above": 2e6, "doubled": 0.003},
]

GOALS = {"ndr": 0.0, "pdr": 0.005}


def lost(device, rate, duration):
    """Frames offered, lost, and received twice."""
    offered = math.floor(rate * duration + 0.5)
    missing = max(0, offered - math.floor(device["limit"] * duration))
    if rate > device.get("knee", math.inf):
        share = device["slope"] * (rate / device["knee"] - 1.0) ** 2
        missing = max(missing, math.floor(offered * min(1.0, share)))
    missing = max(missing, math.floor(offered * device.get("leak", 0.0)))
    doubled = math.floor(offered * device.get("doubled", 0.0)) if rate > device.get("doubles_above", math.inf) else 0
    return offered, missing, doubled


class Measurer(AbstractMeasurer):
    def __init__(self, device):
        self.device, self.trials = device, 0

    def measure(self, intended_duration, intended_load):
        self.trials += 1
        offered, missing, doubled = lost(self.device, intended_load, intended_duration)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=offered,
            loss_count=min(offered, missing + doubled),
        )


def search(device):
    config = Config()
    config.goals = [SearchGoal(loss_ratio=ratio, fail_fast=False) for ratio in GOALS.values()]
    config.max_load, config.min_load = MAX_PPS, MIN_PPS
    config.search_duration_max, config.warmup_duration = 1e9, None
    measurer = Measurer(device)
    found = MultipleLossRatioSearch(config=config).search(measurer=measurer)
    goals = {}
    for name, result in zip(GOALS, found.values()):
        bounds = (result.relevant_lower_bound, result.relevant_upper_bound, result.conditional_throughput)
        goals[name] = dict(zip(("lower_pps", "upper_pps", "throughput_pps"), (float(each) if each else None for each in bounds)))
    return device | {"trials": measurer.trials} | goals


def main():
    found = {"source": "MLRsearch 1.2.1", "min_pps": MIN_PPS, "max_pps": MAX_PPS, "devices": [search(each) for each in DEVICES]}
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
