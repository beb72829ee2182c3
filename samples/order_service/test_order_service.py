#!/usr/bin/env python3
"""Tests of order_service: what it answers, how it ends, and that its own checks pass.

usage: test_order_service.py PROGRAM [test...]
"""

import re
import resource
import signal
import socket
import subprocess
import sys
import unittest

PROGRAM = ""


def order_service(*arguments, **settings):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=100,
                          check=False, **settings)


def order_service_with(descriptors, *arguments):
    return order_service(*arguments, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (descriptors, descriptors)))


class Served(unittest.TestCase):
    """With a service of its own for each test, and clients that talk to it."""

    def setUp(self):
        self.service = subprocess.Popen([PROGRAM, "--serve", "0", "--symbols", "2"],
                                        stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.port = int(self.service.stdout.readline().split()[1])

    def end(self):
        if self.service.poll() is None:
            self.service.terminate()
        status = self.service.wait(timeout=60)
        self.service.stdout.close()
        self.assertEqual(status, 0)

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(client.close)
        return client.makefile("rw", newline="\n")

    def ask(self, *requests, client=None):
        client = client or self.connect()
        client.write("".join(request + "\n" for request in requests))
        client.flush()
        return [client.readline().rstrip("\n") for _ in requests]


class Matching(Served):
    def test_an_order_waits_until_somebody_wants_it(self):
        self.assertEqual(self.ask("buy A 1 10 100", "depth A"),
                         ["1 placed 10", "2 depth 100 10 0 0"])
        self.assertEqual(self.ask("sell A 2 4 100", "depth A"),
                         ["3 placed 0 1:4@100", "4 depth 100 6 0 0"])

    def test_the_best_price_comes_first_at_the_price_of_the_one_that_waited(self):
        self.ask("sell A 1 5 103", "sell A 2 5 101", "sell A 3 5 102")
        self.assertEqual(self.ask("buy A 4 12 103"), ["4 placed 0 2:5@101 3:5@102 1:2@103"])

    def test_of_one_price_who_waited_longest_comes_first(self):
        self.ask("buy A 1 5 100", "buy A 2 5 100", "buy A 3 5 100", "cancel A 1")
        self.assertEqual(self.ask("sell A 4 6 90"), ["5 placed 0 2:5@100 3:1@100"])

    def test_prices_that_do_not_meet_do_not_trade(self):
        self.assertEqual(self.ask("buy A 1 5 99", "sell A 2 5 100", "depth A")[2],
                         "3 depth 99 5 100 5")

    def test_what_is_left_is_cancelled_once(self):
        self.assertEqual(self.ask("buy A 1 5 100", "sell A 2 2 100", "cancel A 1", "cancel A 1"),
                         ["1 placed 5", "2 placed 0 1:2@100", "3 cancelled 3", "4 unknown"])

    def test_an_id_that_waits_is_refused_and_may_come_back_later(self):
        self.assertEqual(self.ask("buy A 1 5 100", "sell A 1 5 100", "cancel A 1", "sell A 1 5 90"),
                         ["1 placed 5", "2 exists", "3 cancelled 5", "4 placed 5"])

    def test_symbols_have_nothing_to_do_with_each_other(self):
        self.assertEqual(self.ask("buy A 1 5 100", "sell B 1 5 100"), ["1 placed 5", "1 placed 5"])

    def test_counts_what_happens(self):
        self.ask("buy A 1 5 100", "sell A 2 2 100", "cancel A 1", "depth B")
        self.assertEqual(self.ask("statistics"), ["statistics 4 1 2 3"])


class Lines(Served):
    def test_what_is_not_understood_is_said_so_and_does_nothing(self):
        wrong = ["", "buy", "buy A", "buy A 1 5", "buy A 1 5 100 7", "buy A x 5 100", "buy A 1 0 1",
                 "buy A 1 5 -1", "buy C 1 5 100", "sell a 1 5 100", "depth A A", "hold A 1",
                 "buy A 99999999999999999999 5 100", "statistics "]
        self.assertEqual(self.ask(*wrong), ["error"] * len(wrong))
        self.assertEqual(self.ask("statistics"), ["statistics 0 0 0 0"])

    def test_a_line_may_come_in_pieces_and_many_at_once(self):
        client = self.connect()
        for piece in ["dep", "th A\ndepth", " A\n"]:
            client.write(piece)
            client.flush()
        self.assertEqual([client.readline() for _ in range(2)],
                         ["1 depth 0 0 0 0\n", "2 depth 0 0 0 0\n"])
        self.assertEqual(len(self.ask(*["depth B"] * 500, client=client)), 500)

    def test_a_line_without_an_end_ends_the_connection_and_no_other(self):
        other = self.connect()
        client = self.connect()
        client.write("x" * 100_000)
        with self.assertRaises((BrokenPipeError, ConnectionResetError)):
            client.flush()
            if client.readline() == "":
                raise ConnectionResetError
        self.assertEqual(self.ask("depth A", client=other), ["1 depth 0 0 0 0"])


class Ending(Served):
    def test_a_client_that_waits_is_told_and_what_it_asked_before_is_answered(self):
        client = self.connect()
        self.ask("depth A", client=client)
        self.service.send_signal(signal.SIGTERM)
        self.assertEqual(client.readline(), "closing\n")
        self.assertEqual(client.readline(), "")

    def test_half_a_line_keeps_nobody_and_is_not_answered(self):
        client = self.connect()
        self.ask("depth A", client=client)
        client.write("depth")
        client.flush()
        self.service.send_signal(signal.SIGTERM)
        self.assertEqual(client.readline(), "closing\n")
        self.assertEqual(client.readline(), "")

    def test_a_client_that_does_not_hang_up_keeps_nobody(self):
        client = self.connect()
        self.ask("depth A", client=client)
        self.service.send_signal(signal.SIGINT)
        self.assertEqual(self.service.wait(timeout=60), 0)


class Load(unittest.TestCase):
    def test_every_answer_is_right_behind_each_guard(self):
        run = order_service("--connections", "8", "--requests", "6000", "--compare",
                            "--rounds", "1")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("Every answer of every round is right", run.stdout)
        for guard in ["section", "task", "strand", "mutex"]:
            self.assertRegex(run.stdout, rf"(?m)^{guard} +\d+")
            self.assertRegex(run.stdout, f"stopped amid the load, behind a {guard}: .* is right")

    def test_ends_with_requests_in_flight(self):
        run = order_service("--connections", "16", "--requests", "20000")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        stopped = re.search(r"(\d+) requests were answered, (\d+) clients told to stop", run.stdout)
        self.assertLess(int(stopped[1]), 20000)
        self.assertGreater(int(stopped[2]), 0)


class Descriptors(unittest.TestCase):
    def test_too_few_are_an_error_before_anybody_waits_for_one(self):
        run = order_service_with(60, "--connections", "40", "--requests", "2000")
        self.assertEqual(run.returncode, 3)
        self.assertEqual(run.stderr, "order_service: cannot open both ends of 40 connections: "
                         "Too many open files\n")

    def test_as_soon_as_there_are_enough_for_both_ends_it_runs(self):
        statuses = [order_service_with(descriptors, "--connections", "8", "--requests", "80").returncode
                    for descriptors in range(16, 40)]
        self.assertEqual(statuses, sorted(statuses, reverse=True))
        self.assertEqual(set(statuses), {0, 3})


class CommandLine(unittest.TestCase):
    def assert_refuses(self, *arguments, because):
        run = order_service(*arguments)
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr, f"order_service: {because}; --help lists the options\n")
        self.assertEqual(run.stdout, "")

    def test_explains_itself(self):
        run = order_service("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertTrue(run.stdout.startswith("usage: order_service [options]\n"))

    def test_names_what_is_wrong(self):
        self.assert_refuses("--bogus", because="there is no option --bogus")
        self.assert_refuses("--requests", because="--requests wants a value")
        self.assert_refuses("--symbols", "27", because="--symbols wants a whole number from 1 to 26, "
                            "not '27'")
        self.assert_refuses("--guard", "luck",
                            because="--guard wants section, task, strand or mutex, not 'luck'")

    def test_says_which_port_cannot_be_had(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            run = order_service("--serve", str(taken.getsockname()[1]))
        self.assertEqual(run.returncode, 3)
        self.assertIn("in use", run.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = sys.argv.pop(1)
    unittest.main()
