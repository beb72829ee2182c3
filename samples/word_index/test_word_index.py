#!/usr/bin/env python3
"""Runs word_index on trees made for the purpose: totals, messages, exit statuses.

usage: test_word_index.py PROGRAM [unittest options]
"""

import os
import pty
import re
import resource
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""

SUCCESS, DIFFERS, BAD_USAGE, INCOMPLETE = 0, 1, 2, 3
UUID = "/proc/sys/kernel/random/uuid"  # a regular file with other content each time it is read
MEMORY = "/proc/self/mem"              # a regular file that even root cannot read at its beginning


def word_index(*arguments, **options):
    """Runs the program; any test fails that waits longer than anything here should take."""
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120, check=False, **options)


def totals(output):
    """The named numbers of a report."""
    return {name: int(number) for name, number in re.findall(r"(?m)^([a-z]+) +(\d+)$", output)}


def frequencies(output):
    """The words of a report with their counts."""
    return {word: int(number) for number, word in re.findall(r"(?m)^ *(\d+)  (\S+)$", output)}


class InATree(unittest.TestCase):
    """Each test has an empty directory of its own."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.top = place.name

    def path(self, *names):
        return os.path.join(self.top, *names)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def count(self, *arguments, expect=SUCCESS):
        """Runs the program on the whole tree and checks how it ends."""
        run = word_index(*arguments, self.top)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def assert_says(self, run, path, sentence):
        self.assertIn(f"word_index: skipped '{path}': {sentence}\n", run.stderr)


class Counting(InATree):
    def test_adds_up_files_bytes_and_words_of_nested_directories(self):
        self.write("a", "one two two\n")
        self.write("b/c/d", "two three")
        run = self.count()
        self.assertEqual(totals(run.stdout),
                         {"files": 2, "bytes": 21, "words": 5, "distinct": 3, "skipped": 0})
        self.assertEqual(frequencies(run.stdout), {"two": 3, "one": 1, "three": 1})
        self.assertEqual(run.stderr, "")

    def test_prints_the_most_frequent_words_first_and_equals_by_letter(self):
        self.write("a", "c b b a c d")
        lines = self.count("--top", "3").stdout.splitlines()
        self.assertEqual([line.split() for line in lines[:4]],
                         [["2", "b"], ["2", "c"], ["1", "a"], []])

    def test_prints_only_totals_for_top_0(self):
        self.write("a", "word")
        self.assertTrue(self.count("--top=0").stdout.startswith("files"))

    def test_splits_at_everything_but_letters_digits_underscores_and_bytes_beyond_ascii(self):
        self.write("a", "std::vector<int> _x1;naïve-ÄÖ\t\"7\"")
        self.assertEqual(frequencies(self.count().stdout),
                         {word: 1 for word in ["std", "vector", "int", "_x1", "naïve", "ÄÖ", "7"]})

    def test_keeps_words_whole_across_blocks(self):
        line = " ".join(f"w{i % 1000}" for i in range(200_000))  # one line, many blocks
        self.write("line", line)
        run = self.count("--top", "1000")
        self.assertEqual(totals(run.stdout)["words"], 200_000)
        self.assertEqual(frequencies(run.stdout), {f"w{i}": 200 for i in range(1000)})

    def test_counts_a_word_longer_than_a_block_once_and_shows_its_beginning(self):
        self.write("long", "x" * 300_000)
        run = self.count()
        self.assertEqual(totals(run.stdout)["words"], 1)
        self.assertEqual(frequencies(run.stdout), {"x" * 60 + "...": 1})

    def test_counts_an_empty_file_as_a_file(self):
        self.write("empty", "")
        run = self.count()
        self.assertEqual(totals(run.stdout),
                         {"files": 1, "bytes": 0, "words": 0, "distinct": 0, "skipped": 0})

    def test_is_content_with_an_empty_directory(self):
        self.assertEqual(totals(self.count().stdout)["files"], 0)

    def test_accepts_single_files(self):
        run = word_index(self.write("a", "one"), self.write("b", "two"))
        self.assertEqual((run.returncode, totals(run.stdout)["words"]), (SUCCESS, 2))

    def test_opens_no_more_files_at_once_than_it_has_threads(self):
        for i in range(300):
            self.write(f"{i}", f"word{i} common")
        run = word_index("--threads=8", self.top, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (32, 32)))
        self.assertEqual(run.stderr, "")
        self.assertEqual(totals(run.stdout)["words"], 600)

    def test_follows_a_tree_deeper_than_the_number_of_files_it_may_open(self):
        self.write("d/" * 100 + "leaf", "word")
        run = word_index(self.top, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (32, 32)))
        self.assertEqual((totals(run.stdout)["words"], run.stderr), (1, ""))


class Skipping(InATree):
    """Whatever cannot be counted is named, and everything else is counted."""

    def setUp(self):
        super().setUp()
        self.write("z/text", "counted")

    def assert_rest_is_counted(self, run, skipped=1):
        self.assertEqual(frequencies(run.stdout), {"counted": 1})
        self.assertEqual(totals(run.stdout)["skipped"], skipped)

    def test_names_a_path_that_does_not_exist(self):
        run = word_index(self.path("nowhere"), self.top)
        self.assertEqual(run.returncode, INCOMPLETE)
        self.assert_says(run, self.path("nowhere"), "it does not exist")
        self.assert_rest_is_counted(run)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_names_a_file_and_a_directory_without_permission(self):
        for name in ["file", "directory"]:
            self.write(f"{name}/inside", "secret")
        os.chmod(self.path("file/inside"), 0)
        os.chmod(self.path("directory"), 0)
        run = self.count(expect=INCOMPLETE)
        os.chmod(self.path("directory"), 0o700)
        for name in ["file/inside", "directory"]:
            self.assert_says(run, self.path(name), "it cannot be read (Permission denied)")
        self.assert_rest_is_counted(run, skipped=2)

    @unittest.skipUnless(os.path.exists(MEMORY), f"there is no {MEMORY}")
    def test_names_a_file_whose_reading_fails(self):
        os.symlink(MEMORY, self.path("memory"))
        run = self.count(expect=INCOMPLETE)
        self.assert_says(run, self.path("memory"), "it cannot be read (Input/output error)")
        self.assert_rest_is_counted(run)

    def test_names_a_file_used_as_a_directory(self):
        run = word_index(self.path("z/text/below"), self.top)
        self.assertEqual(run.returncode, INCOMPLETE)
        self.assert_says(run, self.path("z/text/below"), "it cannot be read (Not a directory)")

    def test_names_a_link_to_a_directory_it_is_in(self):
        os.symlink("..", self.path("z/up"))
        run = self.count()
        self.assert_says(run, self.path("z/up"), f"a directory loop, it leads back to '{self.top}'")
        self.assert_rest_is_counted(run)

    def test_names_directories_that_link_to_each_other(self):
        os.mkdir(self.path("a"))
        os.symlink("../z", self.path("a/z"))
        os.symlink("../a", self.path("z/a"))
        run = self.count()
        self.assert_says(run, self.path("a/z/a"),
                         f"a directory loop, it leads back to '{self.path('a')}'")
        self.assert_says(run, self.path("z"), f"it was met before, as '{self.path('a/z')}'")
        self.assert_rest_is_counted(run, skipped=2)

    def test_names_links_that_lead_nowhere_and_to_themselves(self):
        os.symlink("gone", self.path("dangling"))
        os.symlink("self", self.path("self"))
        run = self.count()
        self.assert_says(run, self.path("dangling"), "a symbolic link that leads nowhere")
        self.assert_says(run, self.path("self"), "a symbolic link that leads back to itself")
        self.assert_rest_is_counted(run, skipped=2)

    def test_counts_a_file_with_two_names_once(self):
        os.link(self.path("z/text"), self.path("z/twin"))
        run = self.count()
        self.assert_says(run, self.path("z/twin"),
                         f"it was met before, as '{self.path('z/text')}'")
        self.assert_rest_is_counted(run)

    def test_counts_a_directory_given_twice_once(self):
        run = word_index(self.top, self.path("z"))
        self.assertEqual(run.returncode, SUCCESS)
        self.assert_says(run, self.path("z"), f"it was met before, as '{self.path('z')}'")
        self.assert_rest_is_counted(run)

    def test_names_a_binary_file(self):
        self.write("program", b"not\0text")
        run = self.count()
        self.assert_says(run, self.path("program"),
                         "a binary file, its first block holds a zero byte")
        self.assert_rest_is_counted(run)

    def test_does_not_wait_for_a_fifo_or_read_a_device(self):
        os.mkfifo(self.path("fifo"))
        os.symlink("/dev/zero", self.path("zero"))
        run = self.count()
        self.assert_says(run, self.path("fifo"), "it is a fifo, not a regular file")
        self.assert_says(run, self.path("zero"), "it is a character device, not a regular file")
        self.assert_rest_is_counted(run, skipped=2)

    def test_sums_up_the_reasons(self):
        self.write("b1", b"\0")
        self.write("b2", b"\0")
        os.mkfifo(self.path("fifo"))
        run = word_index(self.path("nowhere"), self.top)
        self.assertIn("\n  1 missing, 1 special, 2 binary\n", run.stdout)

    def test_does_not_let_a_name_write_control_characters(self):
        self.write("bad\n\x1b[31mname", b"\0")
        run = self.count()
        self.assert_says(run, self.path("bad??[31mname"),
                         "a binary file, its first block holds a zero byte")


class Verifying(InATree):
    def test_agrees_with_a_serial_run_whatever_the_number_of_threads(self):
        for i in range(200):
            self.write(f"{i % 7}/{i}", " ".join(f"w{i * j % 501}" for j in range(400)))
        self.write("binary", b"\0")
        reports = []
        for threads in [1, 2, 8]:
            run = self.count("--verify", f"--threads={threads}")
            self.assertIn("verified: a serial run gives the same totals", run.stdout)
            reports.append((run.stdout, run.stderr))
        self.assertEqual(totals(reports[0][0])["words"], 80_000)
        self.assertEqual(reports, reports[:1] * 3)

    def test_agrees_with_a_serial_run_on_the_headers_of_this_system(self):
        for threads in [1, 2, 8]:
            run = word_index("--verify", f"--threads={threads}")
            if "no C++ headers found" in run.stderr:
                self.skipTest("the headers are not where the program looks for them")
            self.assertEqual(run.returncode, SUCCESS, run.stderr)
            self.assertIn("verified: a serial run gives the same totals", run.stdout)
            self.assertGreater(totals(run.stdout)["words"], 0)

    @unittest.skipUnless(os.path.exists(UUID), f"there is no {UUID}")
    def test_notices_a_file_that_differs_the_second_time(self):
        run = word_index("--verify", UUID)
        self.assertEqual(run.returncode, DIFFERS)
        self.assertIn("word_index: a serial run differs", run.stderr)
        self.assertNotIn("verified", run.stdout)


class CommandLine(InATree):
    def assert_refuses(self, *arguments, because):
        run = word_index(*arguments, self.top)
        self.assertEqual(run.returncode, BAD_USAGE)
        self.assertEqual(run.stderr, f"word_index: {because}; --help lists the options\n")
        self.assertEqual(run.stdout, "")

    def test_explains_itself(self):
        for option in ["--help", "-h"]:
            run = word_index(option)
            self.assertEqual((run.returncode, run.stderr), (SUCCESS, ""))
            self.assertTrue(run.stdout.startswith("usage: word_index [options] [PATH...]\n"))

    def test_names_an_option_that_does_not_exist(self):
        self.assert_refuses("--bogus", because="there is no option --bogus")
        self.assert_refuses("-x", because="there is no option -x")
        self.assert_refuses("--verify", "-xh", because="there is no option -xh")

    def test_names_a_number_that_is_none_or_out_of_range(self):
        for text in ["0", "257", "-1", "two", "2x", "", "99999999999999999999"]:
            self.assert_refuses(f"--threads={text}", because="--threads wants a whole number "
                                f"from 1 to 256, not '{text}'")
        self.assert_refuses("--top", "some", because="--top wants a whole number "
                            "from 0 to 1000000000, not 'some'")

    def test_names_a_value_that_is_missing_or_too_much(self):
        run = word_index(self.top, "--top")
        self.assertEqual(run.returncode, BAD_USAGE)
        self.assertIn("word_index: --top wants a value;", run.stderr)
        self.assert_refuses("--verify=yes", because="--verify takes no value")

    def test_takes_what_follows_two_dashes_as_paths(self):
        self.write("--top", "word")
        run = word_index("--", "--top", cwd=self.top)
        self.assertEqual(totals(run.stdout)["words"], 1)


class Output(InATree):
    def test_shows_progress_on_a_terminal_only(self):
        self.write("a", "word")
        try:
            screen, terminal = pty.openpty()
        except OSError as why:
            self.skipTest(f"no terminal to be had: {why}")
        run = subprocess.run([PROGRAM, self.top], stdout=subprocess.PIPE, stderr=terminal,
                             timeout=120, check=False)
        os.close(terminal)
        shown = os.read(screen, 65536)
        os.close(screen)
        self.assertEqual(run.returncode, SUCCESS)
        self.assertIn(b"\rlooking for files: 1", shown)
        self.assertRegex(shown, rb"\r +\r$")  # wiped at the end
        self.assertNotIn("\r", self.count().stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_says_when_the_result_could_not_be_written(self):
        with open("/dev/full", "wb") as full:
            run = subprocess.run([PROGRAM, self.top], stdout=full, stderr=subprocess.PIPE,
                                 text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, INCOMPLETE)
        self.assertEqual(run.stderr, "word_index: the result could not be written\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
