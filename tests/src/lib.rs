//! Tests of the whole product; see the files beside this one.
