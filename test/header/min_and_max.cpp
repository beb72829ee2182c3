// min_and_max.cpp - the public headers do without the names that <windows.h> and others define as
// macros.
//
// What the standard headers make of such macros is their affair, so they come first.
#include <bits/stdc++.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) < (b) ? (b) : (a))

#include <turnstile/turnstile.hpp>
