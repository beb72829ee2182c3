// main.cpp - the public headers, each from a file of its own, fit into one program.
//
// All that is to be seen here was seen by the compiler and the linker: a function that a header
// defines without `inline` would be there twice.
int main() {}
