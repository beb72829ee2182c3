#!/usr/bin/python3
"""What the benchmark report says of rounds that are made up, so that what is right is known."""

import argparse
import html.parser
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import compare  # noqa: E402
from report import field, goals, grid, machine, page, paired, reasons, tsv  # noqa: E402
from report.before_after import Comparison  # noqa: E402
from report.questions import VIEWS  # noqa: E402
from report.results import Results  # noqa: E402


def name(question, contender, clients):
    return f"{question}/{contender}/T:2/N:{clients}/S:1/B:tiny/W:none/iterations:1/manual_time"


def measured(case, time, **counters):
    return {"name": case, "ns_per_op": time, "against": 2.0, "clients_are_threads": 0.0,
            "limit_ns": 10.0, **counters}


def made_up(rounds, factor=None, scatter=0.05, seed=1):
    """Twenty cases of ours, of which `factor` changes some, and std::mutex."""
    dice = random.Random(seed)
    results = Results()
    for number in range(rounds):
        report = [measured(name("counter", "std_mutex", 2), 50 * dice.lognormvariate(0, scatter),
                           clients_are_threads=1.0)]
        for clients in range(20):
            time = 100 * dice.lognormvariate(0, scatter) * (factor or {}).get(clients, 1)
            report.append(measured(name("counter", "turnstile", clients), time))
        results.add("bench_turnstile", number, report)
    return results


class Statistics(unittest.TestCase):
    def test_the_interval_is_of_order_statistics(self):
        for pairs, outside, confidence in ((5, 0, 0.9375), (6, 0, 0.96875), (9, 1, 0.9609375),
                                           (16, 3, 0.978729248046875)):
            low, high, sure = paired.interval([float(n) for n in range(pairs)])
            self.assertEqual((low, high, sure), (outside, pairs - 1 - outside, confidence))

    def test_one_pair_says_nothing(self):
        self.assertEqual(paired.interval([1.5]), (1.5, 1.5, 0.0))
        self.assertEqual(paired.sign_test([1.5]), 1)
        self.assertFalse(paired.Estimate.of([1.5]).differs())

    def test_the_sign_test_is_exact(self):
        self.assertEqual(paired.sign_test([2.0] * 6), 2 / 64)
        self.assertEqual(paired.sign_test([2.0] * 6 + [1.0] * 3), 2 / 64)
        self.assertEqual(paired.sign_test([0.5, 2.0]), 1)
        self.assertEqual(paired.sign_test([1.0, 1.0]), 1)

    def test_interval_and_sign_test_say_the_same(self):
        dice = random.Random(7)
        for _ in range(500):
            estimate = paired.Estimate.of([dice.lognormvariate(0.2, 0.4) for _ in range(14)])
            self.assertEqual(estimate.differs(), estimate.p <= 1 - paired.CONFIDENCE)

    def test_the_interval_covers_as_often_as_it_says(self):
        dice = random.Random(3)
        covered = 0
        for _ in range(4000):
            low, high, sure = paired.interval([dice.expovariate(1) for _ in range(16)])
            covered += low <= 0.6931 <= high  # the median of that
        self.assertAlmostEqual(covered / 4000, sure, delta=0.01)

    def test_holm(self):
        for found, right in zip(paired.holm([0.01, 0.04, 0.03]), (0.03, 0.06, 0.06)):
            self.assertAlmostEqual(found, right)
        self.assertEqual(paired.holm([]), [])

    def test_rounds_needed_are_enough_and_no_more(self):
        for cases in (1, 20, 99, 400):
            rounds = paired.rounds_needed(cases)
            self.assertLessEqual(cases * paired.sign_test([2.0] * rounds), 0.05 + 1e-12)
            self.assertGreater(cases * paired.sign_test([2.0] * (rounds - 1)), 0.05)


class BeforeAndAfter(unittest.TestCase):
    def test_the_same_twice_does_not_differ(self):
        comparison = Comparison(made_up(16, seed=1), made_up(16, seed=2))
        self.assertEqual(len(comparison.ours), 20)
        self.assertEqual([d for d in comparison.ours if d.stands()], [])
        self.assertLessEqual(len(comparison.differing()), 3)

    def test_what_is_different_is_found_and_nothing_else(self):
        comparison = Comparison(made_up(16, seed=1), made_up(16, {3: 0.5, 7: 2.0}, seed=2))
        standing = {d.case.letter("N"): d.verdict() for d in comparison.ours if d.stands()}
        self.assertEqual(standing, {"3": "faster", "7": "slower"})
        self.assertEqual(comparison.differing()[0].verdict_among_all(), "slower, stands among all")

    def test_too_few_rounds_say_so(self):
        comparison = Comparison(made_up(3), made_up(3, {3: 0.1}))
        self.assertEqual({d.verdict() for d in comparison.ours}, {"too few rounds"})

    def test_the_mutex_is_a_control_and_not_ours(self):
        comparison = Comparison(made_up(6, seed=1), made_up(6, seed=2))
        self.assertEqual([d.case.contender for d in comparison.controls], ["std_mutex"])

    def test_what_is_in_one_alone_is_named(self):
        more = made_up(6)
        more.add("bench_turnstile", 0, [measured(name("counter", "turnstile_new", 1), 1.0)])
        comparison = Comparison(made_up(6), more)
        self.assertEqual(len(comparison.only_after), 1)
        self.assertIn("Only in after", comparison.summary()[-1])


class Outputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_page(self, path):
        text = path.read_text(encoding="utf-8")
        self.assertNotRegex(text, "https?:|@import|<script|<link")
        checker = Checker()
        checker.feed(text)
        checker.close()
        self.assertEqual(checker.wrong, [])
        self.assertEqual(checker.open, [])
        self.assertEqual(checker.targets - checker.ids, set())
        return text

    def test_no_two_tables_have_the_same_title(self):
        titles = [view.title.lower() for view in VIEWS]
        self.assertEqual(len(set(titles)), len(titles))

    def test_the_page_stands_alone(self):
        page.write(self.folder / "a.html", {"command": "a <b>"}, made_up(3))
        text = self.check_page(self.folder / "a.html")
        self.assertIn("right, 3 of 3", text)
        self.assertIn("a &lt;b&gt;", text)

    def test_what_is_not_to_be_quoted_says_so_and_why(self):
        enough = {"rounds": "9, each case about 40 ms", "commit": "f00"}
        for doubt, warned in (({}, False), ({"rounds": "5, fewer than 9: not to be quoted"}, True),
                              ({"commit": "f00, with local changes"}, True),
                              ({"commit": "f00, but the executables are older than the tree"}, True),
                              ({"commit": machine.NO_COMMIT}, True)):
            page.write(self.folder / "a.html", {**enough, **doubt}, made_up(9))
            self.assertEqual("Not to be quoted" in self.check_page(self.folder / "a.html"), warned, doubt)

    def test_a_wrong_answer_is_on_the_page(self):
        results = made_up(2)
        results.add("bench_turnstile", 2, [{"name": name("counter", "turnstile", 3),
                                            "error_occurred": True}])
        page.write(self.folder / "a.html", {}, results)
        self.assertIn("WRONG, 2 of 3", self.check_page(self.folder / "a.html"))

    def test_the_page_of_two_builds_stands_alone(self):
        comparison = Comparison(made_up(16), made_up(16, {3: 0.5}, seed=2))
        page.write_before_after(self.folder / "a.html", {}, comparison)
        self.assertIn("faster, stands among all", self.check_page(self.folder / "a.html"))

    def test_the_page_of_two_builds_says_what_is_not_to_be_quoted_of_either(self):
        comparison = Comparison(made_up(16), made_up(16, seed=2))
        for doubt, warned in (({}, False), ({"before": "b: g++, a debug build: its times mean nothing"}, True),
                              ({"after": "b: g++, commit f00, with local changes"}, True),
                              ({"after": "b: g++, commit f00, and it is not known whether the executables are older"},
                               True)):
            page.write_before_after(self.folder / "a.html", doubt, comparison)
            self.assertEqual("Not to be quoted" in self.check_page(self.folder / "a.html"), warned, doubt)

    def test_what_scrolls_can_be_reached_by_keys_and_has_a_name(self):
        page.write(self.folder / "a.html", {}, made_up(6))
        text = self.check_page(self.folder / "a.html")
        self.assertIn('<div class=wide tabindex=0 role=region aria-label="Counter: the table">', text)
        self.assertNotIn("<div class=wide>", text)
        self.assertNotIn('<th scope="col"></th>', text)

    def test_how_to_repeat_names_commit_and_compiler_or_is_left_out(self):
        (self.folder / "meson-info").mkdir()
        (self.folder / "meson-info" / "intro-targets.json").write_text(json.dumps(
            [{"target_sources": [{"language": "cpp", "compiler": ["ccache", "clang++-19"]}]}]), encoding="utf-8")
        chosen = argparse.Namespace(build=self.folder, rounds=9, quick=False, filter=".")
        self.assertEqual(compare.how_to_repeat(chosen, "f00"), {
            "to repeat": "git checkout f00 && tools/bench --compiler clang++-19 --rounds 9"})
        (self.folder / "meson-info" / "intro-buildoptions.json").write_text(json.dumps(
            [{"name": "ring", "value": "inbox"}, {"name": "all_rings", "value": False}]), encoding="utf-8")
        self.assertIn(" -Dall_rings=false -Dring=inbox --rounds ",
                      compare.how_to_repeat(chosen, "f00")["to repeat"])
        self.assertEqual(compare.how_to_repeat(chosen, machine.NO_COMMIT), {})

    def test_a_row_of_values_for_each_number_of_each_case(self):
        tsv.write(self.folder / "a.tsv", made_up(3))
        header, *rows = self.read_tsv("a.tsv")
        self.assertEqual(tuple(header), tsv.COLUMNS)
        self.assertEqual(len(rows), 21)
        self.assertEqual({len(row) for row in rows}, {len(header)})
        self.assertEqual({row[header.index("answer")] for row in rows}, {"right, 3 of 3"})

    def test_values_of_two_builds(self):
        comparison = Comparison(made_up(16), made_up(16, {3: 0.5}, seed=2))
        tsv.write_before_after(self.folder / "a.tsv", comparison)
        header, *rows = self.read_tsv("a.tsv")
        self.assertEqual(tuple(header), tsv.COLUMNS_BEFORE_AFTER)
        self.assertEqual(len(rows), 21)
        self.assertEqual({len(row) for row in rows}, {len(header)})

    def test_the_numbers_can_be_shown_again(self):
        raw = made_up(3).raw()
        numbers = {"context": {"other programs": "slept"}, "cases": raw}
        (self.folder / "a.json").write_text(json.dumps(numbers), encoding="utf-8")
        subprocess.run([sys.executable, BENCH / "compare.py", "--from", self.folder / "a.json",
                        "--tsv", self.folder / "a.tsv"], check=True, capture_output=True)
        self.assertEqual(len(self.read_tsv("a.tsv")), 22)

    def read_tsv(self, file):
        lines = (self.folder / file).read_text(encoding="utf-8").splitlines()
        return [line.split("\t") for line in lines]


class Field(unittest.TestCase):
    """Nine rounds of ours, and of others that take so many times as long."""

    def of_times(self, question="counter", clients=64, threads=2, rounds=9, counter="ns_per_op", **times):
        results = Results()
        for number in range(rounds):
            slow = 1 + number % 3  # the machine, for all of one round
            threads_of = {"std_mutex": threads, "spin": threads}
            report = [measured(name(question, who, threads_of.get(who, clients)), 100 * slow * factor,
                               clients_are_threads=float(who in threads_of), **{counter: 100 * slow * factor})
                      for who, factor in {"turnstile": 1, **times}.items()]
            results.add("bench_turnstile", number, report[:1])
            results.add("bench_field", number, report[1:])
        return field.standings(results)

    def test_who_is_ahead_level_and_behind(self):
        found = self.of_times(std_mutex=2, spin=0.5, strand=1)
        self.assertEqual({s.theirs.contender: s.verdict() for s in found},
                         {"std_mutex": "ahead", "spin": "behind", "strand": "level"})
        self.assertIn("3 of them: ahead in 1, behind in 1, level in 1 (surely within 5%), open in 0",
                      field.summary(found))
        self.assertIn("about 0.1 would be ahead or behind by chance alone", field.summary(found))
        (lead,) = field.leads(found)
        self.assertEqual(lead.row()[:7], ["counter", "turnstile", "spin", "time", "1 of 1", "0", "2.00"])

    def test_who_does_the_same_on_a_gpu_is_next_to_ours(self):
        for ours, theirs, question in (("turnstile_at_submission", "std_mutex", "gpu_pipelining"),
                                       ("turnstile_completion", "stream_synchronize", "gpu_completion")):
            for counter in ("ns_per_op", "processor_ns"):
                results = Results()
                for number in range(9):
                    results.add("bench_gpu", number, [measured(name(question, who, 1), 100, **{counter: time})
                                                      for who, time in ((ours, 100), (theirs, 50))])
                (lead,) = field.leads(field.standings(results))
                self.assertEqual((lead.theirs, lead.counter, len(lead.behind)), (theirs, counter, 1))
                if (theirs, counter) != ("std_mutex", "ns_per_op"):
                    self.assertNotEqual(lead.why(), reasons.UNKNOWN)

    def of_ratios(self, *ratios):
        results = Results()
        for number, ratio in enumerate(ratios):
            results.add("bench_turnstile", number, [measured(name("counter", "turnstile", 64), 100 * ratio)])
            results.add("bench_field", number, [measured(name("counter", "nobody_knows", 64), 100)])
        return field.standings(results)

    def test_what_may_be_ahead_is_listed(self):
        found = self.of_ratios(0.8, 0.9, 1.2, 1.3, 1.3, 1.4, 1.4, 1.5)
        self.assertIn("open in 1 (the interval holds 1; the median is on our side in 0)", field.summary(found))
        (lead,) = field.leads(found)
        self.assertEqual(lead.row()[4:7], ["0 of 1", "1", "1.30"])
        self.assertEqual(lead.row()[-1], "perhaps by chance")

    def test_what_may_be_behind_or_hardly_ahead_is_not_listed(self):
        for ratios in ((0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3), (0.9, 0.98, 1.01, 1.02, 1.03, 1.03, 1.04, 1.2)):
            found = self.of_ratios(*ratios)
            self.assertEqual([s.verdict() for s in found], ["open"])
            self.assertEqual(field.leads(found), [])

    def test_too_few_rounds_say_nothing(self):
        found = self.of_times(rounds=5, spin=0.5)
        self.assertEqual(field.leads(found), [])
        self.assertIn("Not compared with the field: with 5 rounds", field.summary(found))

    def test_of_what_is_kept_more_is_better(self):
        (standing,) = self.of_times("held", counter="throughput_kept", strand=0.5)
        self.assertEqual(standing.verdict(), "ahead")

    def test_every_number_of_a_latency_is_compared(self):
        for counter in ("p50_us", "p99_us", "p999_us", "max_us"):
            (lead,) = field.leads(self.of_times("latency", threads=64, counter=counter, std_mutex=0.5))
            self.assertEqual(lead.counter, counter)
            self.assertEqual(lead.row()[-1] == reasons.UNKNOWN, counter == "max_us")

    def test_percentiles_of_other_numbers_of_clients_are_another_load(self):
        self.assertEqual(self.of_times("latency", counter="p99_us", std_mutex=0.5), [])
        self.assertEqual(len(self.of_times("oversubscribed", std_mutex=0.5)), 1)

    def test_the_median_of_those_that_are_withdrawn_one_by_one_is_not(self):
        for question in ("withdraw_stop", "withdraw_deadline"):
            (lead,) = field.leads(self.of_withdrawals(question))
            self.assertEqual((lead.theirs, lead.counter), ("std_condition_variable", "p50_us"))
            self.assertNotEqual(lead.row()[-1], reasons.UNKNOWN)

    def of_withdrawals(self, question):
        results = Results()
        for number in range(9):
            for who, clients, time in (("turnstile", 1024, 60), ("std_condition_variable", 64, 40)):
                letters = f"T:{2 if clients == 1024 else 64}/N:{clients}/S:1/B:tiny/W:none"
                results.add(who, number, [{"name": f"{question}/{who}/{letters}", "p50_us": time, "p99_us": time,
                                           "max_us": time, "against": 64.0,
                                           "clients_are_threads": float(clients == 64)}])
        return field.standings(results)

    def test_other_numbers_of_clients_are_another_workload(self):
        results = Results()
        for number in range(9):
            results.add("bench_turnstile", number, [measured(name("counter", "turnstile", 64), 10),
                                                    measured(name("counter", "strand", 2), 5)])
        self.assertEqual(field.standings(results), [])

    def test_each_reason_is_of_a_question_that_is_asked(self):
        questions = {view.question for view in VIEWS}
        for reason in reasons.REASONS:
            self.assertTrue(any(re.fullmatch(reason.question, asked) for asked in questions), reason)

    def of_fewer_clients_than_threads(self):
        results = Results()
        for number in range(9):
            letters = {n: f"T:4/N:{n}/S:1/B:tiny/W:none" for n in (2, 4)}
            results.add("bench_turnstile", number, [
                measured(f"counter/turnstile/{letters[2]}", 5, against=4.0),
                measured(f"counter/turnstile/{letters[4]}", 5, against=4.0),
                measured(f"counter/std_mutex/{letters[4]}", 50, against=4.0, clients_are_threads=1.0)])
            results.add("bench_field", number, [
                measured(f"counter/strand/{letters[2]}", 10, against=4.0),
                measured(f"counter/spin/{letters[4]}", 40, against=4.0, clients_are_threads=1.0)])
        return results

    def test_who_has_fewer_clients_is_not_set_against_threads(self):
        found = field.standings(self.of_fewer_clients_than_threads())
        self.assertEqual({(s.ours.letter("N"), s.theirs.contender) for s in found},
                         {("2", "strand"), ("4", "std_mutex"), ("4", "spin")})

    def test_fewer_clients_than_threads_have_no_ratio_to_the_mutex_but_a_goal(self):
        results = self.of_fewer_clients_than_threads()
        view = next(view for view in VIEWS if view.question == "counter")
        for clients, compared in (("2", ["limit"]), ("4", ["mutex", "limit"])):
            case = results.find("counter", "turnstile", N=clients)
            self.assertEqual([name for name, _ in grid.ratios(view, results, case)], compared)
        said = {what: value for what, _, value in goals.table(results)[1]}
        self.assertEqual(said["counter, 2 coroutines on 4 threads, time of std::mutex"], "0.100 x met")

    def test_a_goal_whose_case_has_run_without_its_number_is_not_met(self):
        results = Results()
        results.add("bench_turnstile", 0, [
            measured("oversubscribed/turnstile/T:2/N:64/S:1/B:1000steps/W:1000steps", 10, against=64.0)])
        header, rows = goals.table(results)
        said = {what: value for what, _, value in rows}
        self.assertEqual({value for what, value in said.items() if "p99.9" in what or "max" in what},
                         {goals.NO_NUMBER})
        self.assertNotIn("uncontended, time of std::mutex", said)
        self.assertIn(f"turnstile meets 1 of {len(rows)}", page._goals_met(header, rows))

    def test_no_reason_is_said_to_be_none(self):
        (lead,) = field.leads(self.of_times(nobody_knows=0.5))
        self.assertEqual(lead.row()[-1], reasons.UNKNOWN)


# Stands for an executable of a build: one case, and the time it is told.
EXECUTABLE = """#!/usr/bin/python3
import json, pathlib, sys
said = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
with pathlib.Path("{log}").open("a") as log:
    log.write(f"{time} {{said.get('--step_ns')}}\\n" * ("--context" not in sys.argv))
if "--context" in sys.argv:
    print("{context}")
elif pathlib.Path("{log}").read_text().count("\\n") > {rounds}:
    sys.exit("the section was in use")
if "--benchmark_out" in said:
    case = {{"name": "counter/turnstile/T:2/N:2/S:1/B:tiny/W:none", "ns_per_op": {time}.0,
            "against": 2.0, "clients_are_threads": 0.0}}
    pathlib.Path(said["--benchmark_out"]).write_text(json.dumps({{"benchmarks": [case]}}))
"""


class TwoBuilds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def add(self, build, name, time, context="", rounds=100):
        path = self.folder / build / "bench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EXECUTABLE.format(log=self.folder / "log", time=time, context=context, rounds=rounds),
                        encoding="utf-8")
        path.chmod(0o755)

    def compare(self, *more):
        return subprocess.run(
            [sys.executable, BENCH / "compare.py", "--build", self.folder / "new", "--before",
             self.folder / "old", *more], capture_output=True, text=True, check=False)

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    def test_they_do_the_same_work(self):
        self.add("old", "bench_turnstile", 100, context="step_ns: 1.2")
        self.add("new", "bench_turnstile", 50, context="step_ns: 1.1")
        self.compare("--rounds", "1")
        self.assertEqual(self.log(), ["100 1.1", "50 1.1"])

    def test_a_failure_says_why_and_keeps_the_rounds_before(self):
        self.add("old", "bench_turnstile", 100)
        self.add("new", "bench_turnstile", 50, rounds=4)
        run = self.compare("--rounds", "3", "--json", self.folder / "a.json")
        self.assertEqual(run.returncode, 1)
        self.assertIn("bench_turnstile ended with status 1\nthe section was in use", run.stderr)
        kept = json.loads((self.folder / "a.json").read_text(encoding="utf-8"))
        self.assertEqual([list(case["rounds"]) for case in kept["cases"]], [["0", "1"]])

    def test_they_run_in_turn_and_what_is_in_one_is_named(self):
        self.add("old", "bench_turnstile", 100)
        self.add("new", "bench_turnstile", 50)
        self.add("new", "bench_device", 50)
        run = self.compare("--rounds", "6", "--json", self.folder / "a.json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("1 faster and 0 slower remain", run.stdout)
        self.assertIn("bench_device (only after)", run.stdout)
        self.assertEqual(self.log(), ["100 None", "50 None", "50 None", "100 None"] * 3)
        again = subprocess.run([sys.executable, BENCH / "compare.py", "--from",
                                self.folder / "a.json"], capture_output=True, text=True, check=True)
        self.assertIn("0.500", again.stdout)

    def test_nothing_in_common_is_an_error(self):
        self.add("old", "bench_turnstile", 100)
        self.add("new", "bench_device", 50)
        run = self.compare()
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("nothing to compare", run.stderr)


class Checker(html.parser.HTMLParser):
    """Whether each tag is closed in its turn, each id is there once, and each link leads to one."""

    NEVER_CLOSED = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids, self.targets = [], [], set(), set()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.NEVER_CLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        said = dict(attrs)
        if said.get("id") in self.ids:
            self.wrong.append(said["id"])
        self.ids |= {said["id"]} if "id" in said else set()
        self.targets |= {said["href"].removeprefix("#")} if "href" in said else set()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))


if __name__ == "__main__":
    unittest.main()
