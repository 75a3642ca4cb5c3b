//! Tests of the core's rules: timelines of single cases, exhaustive search of short histories, and
//! long random ones.

mod broken_models;
mod clients;
mod drafts;
mod embedders;
mod explore;
mod fairness;
mod faults;
mod load_shedding;
mod loads;
mod memory;
mod models;
mod parked;
mod pause;
mod pressure;
mod quit;
mod random;
mod requests;
mod saved_states;
mod settings;
mod simulation;
mod stops;
mod stuck;
mod timeline;
mod together;
mod unloads;
