//! The core's rules as timelines, and all short histories tried exhaustively.

mod asks;
mod broken;
mod conversations;
mod explore;
mod faults;
mod loads;
mod memory;
mod pauses;
mod pressure;
mod quits;
mod random;
mod settings;
mod shed;
mod simulation;
mod stops;
mod stuck;
mod timeline;
mod unloads;
mod world;
