//! An engine between a session and the ranks of the testkit that hears of every call before it is made.

use shardweave_runtime::engine::{Engine, EngineError, Exchange, Place, SharedBytes};
use shardweave_testkit::ranks::Rank;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A call of an engine.
pub enum Call<'a> {
    /// With the number of bytes, which can be changed.
    Share(&'a mut usize),
    GiveBack,
    Exchange,
    TellAll,
    Least,
    Gather,
    /// With the reason.
    Abort(&'a str),
}

/// Calls `before` before each call, which fails as that says.
pub struct Watched<F> {
    engine: Arc<Rank>,
    timeout: Option<Duration>,
    before: F,
}

impl<F: Fn(Call<'_>) -> Result<(), EngineError> + Send + Sync> Watched<F> {
    pub fn new(engine: Arc<Rank>, before: F) -> Arc<Watched<F>> {
        Arc::new(Watched { engine, timeout: None, before })
    }

    /// The same where ranks are ended: who waits for the ticks of a rank that was ended is a thread, and does not end
    /// with it.
    pub fn with_timeout(engine: Arc<Rank>, before: F) -> Arc<Watched<F>> {
        Arc::new(Watched { engine, timeout: Some(Duration::from_millis(300)), before })
    }
}

impl<F: Fn(Call<'_>) -> Result<(), EngineError> + Send + Sync> Engine for Watched<F> {
    fn place(&self) -> &Place {
        self.engine.place()
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn share(&self, mut bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        (self.before)(Call::Share(&mut bytes))?;
        self.engine.share(bytes)
    }

    fn give_back(&self) -> Result<(), EngineError> {
        (self.before)(Call::GiveBack)?;
        self.engine.give_back()
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
        (self.before)(Call::Exchange)?;
        self.engine.exchange(exchange)
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        (self.before)(Call::TellAll)?;
        self.engine.tell_all(own)
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        (self.before)(Call::Least)?;
        self.engine.least(own)
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        (self.before)(Call::Gather)?;
        self.engine.gather(own)
    }

    fn abort(&self, reason: &str) -> ! {
        // It cannot fail.
        let _ = (self.before)(Call::Abort(reason));
        self.engine.abort(reason)
    }
}

/// Counts down to one time of many.
#[derive(Clone)]
pub struct Countdown(Arc<AtomicI64>);

impl Countdown {
    /// To the first time with 1.
    pub fn new(number: i64) -> Countdown {
        Countdown(Arc::new(AtomicI64::new(number)))
    }

    /// Whether this is that time.
    pub fn is_now(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Whether that time is still to come.
    pub fn is_to_come(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}
