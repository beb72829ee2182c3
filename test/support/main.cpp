// main.cpp - runs the tests of one folder.
#include <doctest/doctest.h>

int main(int count, char** arguments) { return doctest::Context(count, arguments).run(); }
