//! Exchanges that are drawn from a number: all ranks draw the same, each makes its part, and what comes is known from
//! who sent it.

use shardweave_mpi::Mpi;
use shardweave_runtime::engine::{Engine, EngineError, Exchange, Form};
use std::thread;
use std::time::Duration;

/// Numbers that are the same on all ranks (splitmix64).
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn bytes(&mut self) -> usize {
        [0, 0, 1, 7, 64, 1000, 4099, 70_001][self.below(8)]
    }
}

/// Every form; where there is a root, any will do.
pub const FORMS: [Form; 6] = [
    Form::Messages,
    Form::Broadcast { root: 0 },
    Form::AllGather,
    Form::AllToAll,
    Form::Gather { root: 0 },
    Form::Scatter { root: 0 },
];

fn with_root(form: Form, root: usize) -> Form {
    match form {
        Form::Messages | Form::AllGather | Form::AllToAll => form,
        Form::Broadcast { .. } => Form::Broadcast { root },
        Form::Gather { .. } => Form::Gather { root },
        Form::Scatter { .. } => Form::Scatter { root },
    }
}

/// Whether one rank may send to another.
fn may_send(form: Form, from: usize, to: usize) -> bool {
    match form {
        Form::Messages | Form::AllGather | Form::AllToAll => true,
        Form::Broadcast { root } => from == root && to != root,
        Form::Gather { root } => to == root,
        Form::Scatter { root } => from == root,
    }
}

/// An exchange as all members see it together.
pub struct Drawn {
    number: u64,
    form: Form,
    members: Vec<usize>,
    /// By sender and receiver, as places among the members.
    bytes: Vec<Vec<usize>>,
}

/// The byte at a place of what one rank sends to another.
fn byte(number: u64, from: usize, to: usize, at: usize) -> u8 {
    (number.wrapping_mul(31) as usize + from * 101 + to * 17 + at * 7 + at / 251) as u8
}

impl Drawn {
    pub fn new(number: u64, ranks: usize) -> Drawn {
        let mut draw = Draw(number);
        let mut members: Vec<usize> = (0..ranks).filter(|_| draw.below(4) > 0).collect();
        if members.is_empty() {
            members = (0..ranks).collect();
        }
        let count = members.len();
        let form = FORMS[draw.below(FORMS.len())];
        Drawn::of(form, members, number, |_, _| draw.bytes(), count)
    }

    /// With the root at some member, and sizes as the form allows.
    fn of(
        form: Form,
        members: Vec<usize>,
        number: u64,
        mut size: impl FnMut(usize, usize) -> usize,
        count: usize,
    ) -> Drawn {
        let form = with_root(form, members[number as usize % count]);
        let mut sent_by = |from: usize| {
            let same = size(from, from);
            let sent_to = |to: usize| match may_send(form, members[from], members[to]) {
                true if form.sends_alike() => same,
                true => size(from, to),
                false => 0,
            };
            (0..count).map(sent_to).collect()
        };
        let bytes: Vec<Vec<usize>> = (0..count).map(&mut sent_by).collect();
        Drawn { number, form, members, bytes }
    }

    /// As many bytes between all.
    pub fn even(form: Form, ranks: usize, number: u64, bytes: usize) -> Drawn {
        Drawn::of(form, (0..ranks).collect(), number, |_, _| bytes, ranks)
    }

    /// This rank's part; panics if what comes is not what was sent.
    pub fn make(&self, mpi: &Mpi, stream: usize) {
        let made = self.try_make(mpi, stream);
        made.unwrap_or_else(|error| panic!("{:?} of {:?}: {error}", self.form, self.members));
    }

    /// The same, if the others come.
    pub fn try_make(&self, mpi: &Mpi, stream: usize) -> Result<(), EngineError> {
        let Some(own) = self.members.iter().position(|&member| member == mpi.place().rank) else {
            return Ok(());
        };
        let (count, from_me) = (self.members.len(), self.members[own]);
        // Whether parts without bytes are told of is up to each rank.
        let tells_empty = |bytes: usize| bytes > 0 || (self.number as usize + own).is_multiple_of(2);
        let target = |to: usize| if self.form.sends_alike() { 0 } else { self.members[to] };
        let mut sent: Vec<u8> = Vec::new();
        for to in 0..count {
            let goes = |at| byte(self.number, from_me, target(to), at);
            sent.extend((0..self.bytes[own][to]).map(goes));
        }
        let (mut sends, mut rest) = (Vec::new(), &sent[..]);
        for to in 0..count {
            let bytes = self.bytes[own][to];
            let part = rest.split_off(..bytes).expect("as many bytes as go");
            // What goes alike to all is there once.
            let part = if self.form.sends_alike() { &sent[..bytes] } else { part };
            // A rank receives of itself, whether it says that it sends to itself or not.
            let is_named =
                self.form != Form::AllGather || to != own || count == 1 || self.number.is_multiple_of(2);
            let goes = may_send(self.form, from_me, self.members[to]) && is_named;
            if goes && tells_empty(bytes) {
                sends.push((self.members[to], part));
            }
        }
        let came: usize = (0..count).map(|from| self.bytes[from][own]).sum();
        let mut got = vec![0xee; came];
        let (mut receives, mut rest) = (Vec::new(), &mut got[..]);
        for from in 0..count {
            let part = rest.split_off_mut(..self.bytes[from][own]).expect("as many bytes as come");
            let comes = may_send(self.form, self.members[from], from_me);
            if comes && tells_empty(part.len()) {
                receives.push((self.members[from], part));
            }
        }
        let sums = (0..count).map(|member| {
            let sent: usize = self.bytes[member].iter().sum();
            let got: usize = self.bytes.iter().map(|to| to[member]).sum();
            sent.max(got)
        });
        let most = sums.max().unwrap_or(0);
        let exchange = Exchange {
            stream,
            form: self.form,
            members: &self.members,
            most,
            sends: &sends,
            receives: &mut receives,
        };
        mpi.exchange(exchange)?;
        let mut start = 0;
        for from in 0..count {
            for at in 0..self.bytes[from][own] {
                let to = if self.form.sends_alike() { 0 } else { from_me };
                let expected = byte(self.number, self.members[from], to, at);
                assert_eq!(got[start + at], expected, "byte {at} from {from} in {:?}", self.form);
            }
            start += self.bytes[from][own];
        }
        Ok(())
    }
}

pub fn in_every_form(mpi: &Mpi) {
    let ranks = mpi.place().ranks();
    for form in FORMS {
        for bytes in [0, 1, 4096, 300_000] {
            Drawn::even(form, ranks, bytes as u64 + 1, bytes / if bytes > 9999 { ranks } else { 1 })
                .make(mpi, 0);
        }
    }
    (0..200).for_each(|number| Drawn::new(number, ranks).make(mpi, number as usize % 3));
}

/// Two threads, each with streams of its own, make exchanges among groups that overlap.
pub fn on_streams_of_two_threads(mpi: &Mpi) {
    let ranks = mpi.place().ranks();
    thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let mut draw = Draw(99 + thread as u64);
                for number in 0..150 {
                    let stream = thread + 2 * draw.below(6);
                    Drawn::new(1000 * (1 + thread as u64) + number, ranks).make(mpi, stream);
                }
            });
        }
    });
}

/// Exchanges of one stream stay in order, whether others take part or not, and however long a rank takes.
pub fn in_order_with_others(mpi: &Mpi) {
    let (ranks, rank) = (mpi.place().ranks(), mpi.place().rank);
    for number in 0..60 {
        if number as usize % ranks == rank {
            thread::sleep(Duration::from_millis(3));
        }
        let ends: Vec<usize> = if number % 3 == 0 { (0..ranks).collect() } else { vec![0, ranks - 1] };
        let mut ends = ends;
        ends.dedup();
        let count = ends.len();
        Drawn::of(Form::Messages, ends, number, |from, to| 1 + from + 2 * to, count).make(mpi, 4);
    }
}
