//! The core's rules as timelines, and all short histories tried exhaustively.

mod asks;
mod conversations;
mod explore;
mod faults;
mod loads;
mod pauses;
mod pressure;
mod random;
mod settings;
mod simulation;
mod timeline;
mod unloads;
mod world;
