// asio_alone.cpp - a program on Asio without Boost.
#define TURNSTILE_ASIO_STANDALONE
#include "asio.cpp"
