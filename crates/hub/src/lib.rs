//! Fetches model files from a hub that speaks Hugging Face's routes, and keeps their order.
//!
//! Rule: a file is in its place only when it is whole and verified. Whatever happens before, a part
//! file stays that the next attempt goes on from, and the reason is told in one sentence.
