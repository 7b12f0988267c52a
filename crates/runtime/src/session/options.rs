//! What the user of a session chooses.

use crate::engine::Engine;
use crate::execute::{Backend, Link, Loans, Probe, Record, Streams};
use shardweave_compiler::compile;
use std::sync::Arc;

/// What the user chooses.
#[derive(Clone)]
pub struct SessionOptions {
    /// How the program is compiled.
    pub compile: compile::CompileOptions,
    /// Sizes of dims that no input says.
    pub sizes: Vec<(String, u64)>,
    /// What runs the devices.
    pub backend: Backend,
    /// Joins the processes of a run in which every device is one: this one plays the device of its rank, with
    /// threads, whatever the backend. All ranks make the same calls of their sessions in the same order.
    pub engine: Option<Arc<dyn Engine>>,
    /// Which streams of a device run beside each other; without it, what pays: see [`Session`](super::Session).
    pub streams: Option<Streams>,
    /// What of that which is lent is read block by block; in place where devices share memory and no link is played.
    pub loans: Loans,
    /// How many threads can run at the same time; where an engine joins ranks, its [`Place`](crate::engine::Place) says it.
    pub cores: usize,
    /// How many bytes arenas and outputs may take; without it, what the system says is available.
    pub memory: Option<u64>,
    /// How much of each run is recorded.
    pub record: Record,
    /// Is told of everything that devices do.
    pub probe: Option<Arc<dyn Probe>>,
    /// Threads deliver as devices with this link between them would.
    pub link: Option<Link>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            compile: compile::CompileOptions::default(),
            sizes: Vec::new(),
            backend: Backend::default(),
            engine: None,
            streams: None,
            loans: Loans::default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: None,
            record: Record::default(),
            probe: None,
            link: None,
        }
    }
}
