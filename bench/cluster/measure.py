"""The rows: what each subject is, run by run. Every function gives (what to keep beside the samples, the sample in seconds)."""

import json
import subprocess

import figures
import paceline
from common.program import Failed
from common.rounds import rounds
from jobs import MPIRUN, WORKER, Lab, independent, launched, lines_of_json, needs, run
from rows import flowers
from subjects import ALLREDUCE, CURVE, CURVE_BATCH, CURVE_STEPS, HERE, INDEPENDENT, LAB, LAB_ALONE, MATMUL, MATMUL_BLOCK, MATMUL_N, RATE
from subjects import SIZES, TRAINING, WORKERS


class Bench:
    """What all rows share: the programs, the options, and where results go."""

    def __init__(self, binary, example, options, save, say):
        self.binary, self.example, self.options, self.save, self.say = binary, example, options, save, say

    def visit(self, name, subjects, measure, entry, shown):
        """What is kept beside the samples is the middle of all rounds, like the samples."""
        answers = {subject: [] for subject in subjects}

        def kept(subject):
            answer, sample = measure(subject)
            answers[subject].append(answer)
            return figures.middle_answer(answers[subject]), sample

        rounds(name, subjects, self.options.repeats, self.options.seed, kept, entry, self.save, self.say, shown)


def examples_per_second(seconds):
    return f"{1 / seconds:.1f} examples/s"


def allreduce_once(words, size):
    """One line of the example: our seconds, the library's own at its best setting, and those of copying as many bytes."""
    answers = lines_of_json(run([*words, "--bytes", size, "--json"]))
    if not answers:
        raise Failed("allreduce_speed printed no JSON")
    answer = answers[-1]
    kept = {key: answer.get(key) for key in ("transport", "library", "ranks", "bytes", "plain_seconds", "plain_setting", "memory_seconds")}
    return kept, answer["seconds"]


def allreduce(bench, entry):
    """Ours and the library's own in the same process, one after the other: their ratio is taken inside a sample."""
    library = bench.options.library
    mpirun = MPIRUN[library]
    needs(mpirun[0])
    with Lab(2, "--rate", RATE) as lab:
        ways = {
            "threads": [bench.example, "--threads", 2],
            f"{library}, here": [*mpirun, "-np", 2, bench.example],
            f"{library}, {RATE}": [*lab.over(2), mpirun[0], "-np", 2, bench.example],
        }
        subjects = {f"{way}, {size / 1e6:g} MB": (words, size) for size in bench.options.sizes or SIZES for way, words in ways.items()}

        def measure(subject):
            kept, seconds = allreduce_once(*subjects[subject])
            series = entry[subject].setdefault("series", {"plain": [], "memory": []})
            for key, values in series.items():
                other = kept[f"{key}_seconds"]
                values.append(other / seconds if other else None)
            return kept, seconds

        bench.visit(ALLREDUCE, [*subjects], measure, entry, lambda s: f"{s * 1e3:.2f} ms")


KEPT = ("peak_rss", "parameters", "split", "exposed", "loss", "steps")


def training(bench, spec, entry):
    """Two ranks of one core against two runs that know nothing of each other, here and on hosts; then the exchange alone."""
    steps = 2 if bench.options.quick else spec.steps
    one, both = spec.row(spec.batch), spec.row(2 * spec.batch)
    with Lab(2, "--cores", 1, "--rate", RATE) as lab:

        def measure(subject):
            if subject == INDEPENDENT:
                bound = lambda core: {"strategy": "one-device", "device": f"cpu:{core}"}  # noqa: E731
                seconds, results = independent([[bench.binary]] * 2, one, steps, bound)
            elif subject == LAB_ALONE:
                seconds, results = independent([[*lab.on(host), bench.binary] for host in (0, 1)], one, steps)
            else:
                words = launched(bench.binary, 2, lab if subject == LAB else None)
                results = [paceline.Run(words, both, WORKER, steps).finish()]
                seconds = results[0]["seconds"]
                alone = exchange_alone(bench, results[0]["parameters"], lab if subject == LAB else None)
                return {**{key: results[0][key] for key in KEPT}, "alone": alone}, seconds
            return {key: results[0][key] for key in KEPT}, seconds

        bench.visit(spec.name, TRAINING, measure, entry, examples_per_second)


def exchange_alone(bench, parameters, lab):
    """Seconds of an all-reduce of all gradients with nothing to compute beside it."""
    mpirun = MPIRUN[bench.options.library]
    words = [*lab.over(2), mpirun[0], "-np", 2] if lab else [*mpirun, "-np", 2]
    _, seconds = allreduce_once([*words, bench.example], figures.gradient_bytes(parameters))
    return seconds


def curve(bench, entry, dilation):
    """1 to 10 hosts of one core, in slow motion; the batch grows with the workers."""
    counts = [n for n in WORKERS if not bench.options.quick or n in (1, 2, 4)]
    steps = 2 if bench.options.quick else CURVE_STEPS
    with Lab(max(counts), "--cores", 1, "--rate", RATE, "--dilation", dilation) as lab:

        def measure(subject):
            workers = int(subject.split()[0])
            words = launched(bench.binary, workers, lab)
            # As many batches as steps: one epoch, because an evaluation in slow motion takes minutes.
            answer = paceline.Run(words, flowers(CURVE_BATCH * workers), WORKER, steps, held=steps + paceline.WARM + 1).finish()
            return {key: answer[key] for key in KEPT}, answer["seconds"]

        bench.visit(CURVE, [f"{n} workers" for n in counts], measure, entry, lambda s: f"{dilation / s:.1f} examples/s in the lab's time")


def matmul_flops(text):
    """(floating-point operations per second of each rank, share of the time they waited) of `paceline matmul --json`."""
    answer = text if isinstance(text, dict) else lines_of_object(text)
    done = [layout["run"] for layout in answer["layouts"] if layout.get("run")]
    if not done:
        raise Failed("paceline matmul ran no placement")
    return done[0]["flops"], done[0]["waiting"]


def lines_of_object(text):
    """The first JSON object in an output, over however many lines."""
    begin = text.find("{")
    if begin < 0:
        raise Failed("paceline matmul printed no JSON")
    return json.JSONDecoder().raw_decode(text[begin:])[0]


def matmul(bench, entry):
    """FLOP/s, as seconds for a FLOP, of two ranks, of two products at once that know nothing of each other, and of one alone."""
    size = ["--n", MATMUL_N // 4 if bench.options.quick else MATMUL_N, "--block", MATMUL_BLOCK // 4 if bench.options.quick else MATMUL_BLOCK, "--json"]
    alone = [bench.binary, "matmul", *size, "--ranks", 1]
    ways = {
        "one product alone": [alone],
        "two independent products": [alone, alone],
        "2 ranks, threads": [[bench.binary, "matmul", *size, "--ranks", 2]],
        "2 ranks, MPI here": [[*MPIRUN[bench.options.library], "-np", 2, bench.binary, "matmul", *size, "--ranks", 1]],
    }

    def measure(subject):
        processes = [subprocess.Popen([*map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for line in ways[subject]]
        total, least, waiting, bad = 0.0, float("inf"), 0.0, None
        for process in processes:
            out, errors = process.communicate()
            if process.returncode != 0:
                bad = errors.strip().splitlines()[-1][:300] if errors.strip() else f"exit code {process.returncode}"
                continue
            flops, waits = matmul_flops(out)
            total, least, waiting = total + sum(flops), min(least, *flops), max(waiting, *waits)
        if bad:
            raise Failed(bad)
        return {"rank_flops": least, "waiting": waiting}, 1 / total

    bench.visit(MATMUL, [*ways], measure, entry, lambda s: f"{1 / s / 1e9:.1f} GFLOP/s")


def kills(bench):
    """The records of tests/cluster/soak: many kills of a real job."""
    path = bench.options.soak
    if not path:
        raise Failed("give the records of `tests/cluster/soak --kills 100 --json FILE` with --soak FILE")
    try:
        with open(path) as file:
            return lines_of_json(file.read())
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None
