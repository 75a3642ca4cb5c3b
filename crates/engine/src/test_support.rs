//! A scripted engine for the tests of the rooms above.
