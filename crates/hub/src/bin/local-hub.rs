//! Serves a folder as a hub, with faults by flags, for tests of programs from outside.
//!
//! Rule: it prints its address as its first line, and ends when its standard input does.

fn main() {}
