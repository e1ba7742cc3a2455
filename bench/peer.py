#!/usr/bin/env python3
"""Measure a model in another run time, as `anfora bench` does in Anfora: the same options, the same numbers.

usage: peer.py onnxruntime|openvino|anfora MODEL --input FILE.npz [--threads N] [--seconds S] [--output FILE.npz] [--turns]

Prints one line of JSON: median_ms, min_ms, cpu_ms, load_s, peak_added_bytes, runs, threads, version. Every optimization that
the run time has is on, and its precision is float32. The memory is what loading and running add to the peak of the process.
With --turns (see turns.py) it reads numbers instead, a line each, and answers each with the seconds of that many runs.
"""
import argparse
import json
import statistics
import sys
import time

import numpy as np

FEWEST_RUNS = 3


class OnnxRuntime:
    def __init__(self):
        import onnxruntime
        self.package, self.version = onnxruntime, onnxruntime.__version__

    def load(self, model, threads):
        options = self.package.SessionOptions()
        options.graph_optimization_level = self.package.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = self.package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        wanted = {value.name for value in session.get_inputs()}
        return lambda inputs: dict(zip(names, session.run(None, {k: v for k, v in inputs.items() if k in wanted})))


class OpenVino:
    def __init__(self):
        import openvino
        self.package, self.version = openvino, openvino.__version__

    def load(self, model, threads):
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        compiled = self.package.Core().compile_model(model, "CPU", settings)
        request = compiled.create_infer_request()
        wanted = {name for value in compiled.inputs for name in value.names}

        def run(inputs):
            results = request.infer({k: v for k, v in inputs.items() if k in wanted}, share_inputs=True, share_outputs=True)
            return {port.any_name: results[port] for port in compiled.outputs}
        return run


class Anfora:
    def __init__(self):
        import anfora
        self.version = anfora.__version__
        self.open = anfora.load  # which imports the compiler: the peers' imports are not measured, either

    def load(self, model, threads):
        source = self.open(model)
        names, run = [output.name for output in source.outputs], source.compile(threads=threads)
        return lambda inputs: dict(zip(names, run.run(inputs)))


RUN_TIMES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "anfora": Anfora}


def memory_status(field):
    """VmRSS: resident now; VmHWM: at most since the start or the last reset."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def reset_peak():
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def take_turns(run, inputs):
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run(inputs)
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_time", choices=RUN_TIMES)
    parser.add_argument("model")
    parser.add_argument("--input", required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--output")
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    run_time = RUN_TIMES[options.run_time]()
    inputs = dict(np.load(options.input))

    reset_peak()
    before = memory_status("VmRSS")
    start = time.perf_counter()
    run = run_time.load(options.model, options.threads)
    load = time.perf_counter() - start
    outputs = run(inputs)
    if options.output:
        np.savez(options.output, **outputs)
    if options.turns:
        return take_turns(run, inputs)
    times, cpu_times = [], []
    begin = time.perf_counter()
    while len(times) < FEWEST_RUNS or time.perf_counter() - begin < options.seconds:
        start, cpu_start = time.perf_counter(), time.process_time()
        run(inputs)
        cpu_times.append(time.process_time() - cpu_start)
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "median_ms": statistics.median(times) * 1e3, "min_ms": min(times) * 1e3, "cpu_ms": statistics.median(cpu_times) * 1e3, "load_s": load,
        "peak_added_bytes": memory_status("VmHWM") - before, "runs": len(times), "threads": options.threads,
        "version": run_time.version}))


if __name__ == "__main__":
    main()
