// alone.cpp - a public header compiles alone, and twice in a row.
//
// Compiled once for each header, with HEADER set to it in angle brackets.
#include HEADER
#include HEADER
