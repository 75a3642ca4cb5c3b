//! Guesses in the loop of an engine, with a scripted model.
