//! Every order in which a small program can run.
//!
//! A correct program is determined: wherever its lanes are, the memories hold what they hold, in
//! whichever order the lanes came there. So a state is named by how far each lane is, and reaching one a
//! second time with another content is a race:
//!
//! ```text
//!                  (0,0)
//!          lane 0 /     \ lane 1
//!              (1,0)   (0,1)        all states that are as many steps from the start are a level;
//!                   \  /            a level follows from the one before it alone
//!                  (1,1)            one content, or a race
//! ```
//!
//! With [`Orders::All`] nothing is left out: from every state every lane that can go on does. Only waits are
//! no steps ([`Machine::go`] says why). With [`Orders::Different`] orders that differ in nothing but when a
//! step is taken that concerns nobody else are one order ([`Machine::free`] says why that loses no fault);
//! two steps that can both be next are then tried in both orders wherever that is seen.

use super::machine::{Machine, State};
use super::memories::{Fast, Memories};
use std::fmt;

/// All that happened in the orders that were tried: one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explored {
    /// How many states there are.
    pub states: usize,
    /// A digest of the outputs.
    pub outputs: u64,
}

/// What goes wrong in some order.
#[derive(Debug)]
pub enum Wrong {
    /// Two orders come to the same place with different memories: where they differ, and both from where
    /// they part.
    Race(String, [Vec<String>; 2]),
    /// Nobody can go on, and these are not at their ends.
    Deadlock(Vec<String>, Vec<String>),
    /// Something is read that is not written.
    Undefined(String, Vec<String>),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Race(place, [one, other]) => {
                let (one, other) = (one.join("\n  "), other.join("\n  "));
                write!(f, "race: {place} depends on the order:\n  {one}\nor\n  {other}")
            }
            Wrong::Deadlock(stuck, order) => {
                let (stuck, order) = (stuck.join("\n  "), order.join("\n  "));
                write!(f, "nobody can go on:\n  {stuck}\nafter\n  {order}")
            }
            Wrong::Undefined(what, order) => write!(f, "{what}, after\n  {}", order.join("\n  ")),
        }
    }
}

/// How a state was reached first: from which, and by which lane. The start is reached from itself.
struct Reached {
    before: usize,
    lane: usize,
    at: u32,
}

/// Which orders are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orders {
    All,
    Different,
}

struct Explorer<'a> {
    machine: &'a Machine,
    orders: Orders,
    memories: Memories,
    reached: Vec<Reached>,
}

/// Goes through every state; `None` if there are more than `most`.
pub fn explore(machine: &Machine, orders: Orders, most: usize) -> Result<Option<Explored>, Wrong> {
    let mut memories = Memories::default();
    let mut level = vec![(0, machine.start(&mut memories))];
    let reached = vec![Reached { before: 0, lane: 0, at: 0 }];
    let mut explorer = Explorer { machine, orders, memories, reached };
    loop {
        let next = explorer.level(&level)?;
        if next.is_empty() {
            break;
        }
        if explorer.reached.len() > most {
            return Ok(None);
        }
        level = next;
    }
    // The last level is the end: a state from which nobody goes on anywhere else is a deadlock.
    let (id, end) = &level[0];
    let outputs =
        machine.outputs(&explorer.memories, end).map_err(|why| Wrong::Undefined(why, explorer.order(*id)))?;
    Ok(Some(Explored { states: explorer.reached.len(), outputs }))
}

impl Explorer<'_> {
    fn level(&mut self, level: &[(usize, State)]) -> Result<Vec<(usize, State)>, Wrong> {
        let mut next: Vec<(usize, State)> = Vec::new();
        let mut known: Fast<Box<[u32]>, usize> = Fast::default();
        let mut after = level[0].1.clone();
        for (before, state) in level {
            let mut ready = self.machine.ready(state);
            if ready.is_empty() {
                self.check_end(*before, state)?;
            }
            if self.orders == Orders::Different {
                match self.machine.free(state, &ready) {
                    Some(lane) => ready = vec![lane],
                    None => self.check_pairs(*before, state, &ready)?,
                }
            }
            for lane in ready {
                after.become_like(state);
                let step = |explorer: &Self| explorer.order_through(*before, state, &[lane]);
                let went = self.machine.go(&mut self.memories, &mut after, lane);
                went.map_err(|what| Wrong::Undefined(what, step(self)))?;
                match known.get(&after.at) {
                    Some(&place) if next[place].1 == after => {}
                    Some(&place) => {
                        let (id, first) = &next[place];
                        let orders = parted(self.order(*id), step(self));
                        let place = self.machine.difference(&self.memories, first, &after);
                        return Err(Wrong::Race(place, orders));
                    }
                    None => {
                        known.insert(after.at.clone(), next.len());
                        next.push((self.reached.len(), after.clone()));
                        self.reached.push(Reached { before: *before, lane, at: state.at[lane] });
                    }
                }
            }
        }
        Ok(next)
    }

    /// Every two of the lanes take their next steps in both orders. They do not stand in each other's way:
    /// who can go on still can after the other.
    fn check_pairs(&mut self, id: usize, state: &State, ready: &[usize]) -> Result<(), Wrong> {
        for (place, &one) in ready.iter().enumerate() {
            for &other in &ready[place + 1..] {
                let first = self.both(id, state, [one, other])?;
                let second = self.both(id, state, [other, one])?;
                if first != second {
                    let place = self.machine.difference(&self.memories, &first, &second);
                    let orders =
                        [[one, other], [other, one]].map(|lanes| self.order_through(id, state, &lanes));
                    let [first, second] = orders;
                    return Err(Wrong::Race(place, parted(first, second)));
                }
            }
        }
        Ok(())
    }

    /// Where two lanes come to, one after the other.
    fn both(&mut self, id: usize, state: &State, lanes: [usize; 2]) -> Result<State, Wrong> {
        let mut after = state.clone();
        for (done, lane) in (1..).zip(lanes) {
            let went = self.machine.go(&mut self.memories, &mut after, lane);
            went.map_err(|what| Wrong::Undefined(what, self.order_through(id, state, &lanes[..done])))?;
        }
        Ok(after)
    }

    /// The steps that lead to a state and the next ones of these lanes.
    fn order_through(&self, id: usize, state: &State, lanes: &[usize]) -> Vec<String> {
        let mut order = self.order(id);
        order.extend(lanes.iter().map(|&lane| self.machine.text(lane, state.at[lane])));
        order
    }

    fn check_end(&self, id: usize, state: &State) -> Result<(), Wrong> {
        let stuck = self.machine.unfinished(state).into_iter();
        let stuck: Vec<String> = stuck.map(|lane| self.machine.text(lane, state.at[lane])).collect();
        if stuck.is_empty() { Ok(()) } else { Err(Wrong::Deadlock(stuck, self.order(id))) }
    }

    /// The steps that lead to a state.
    fn order(&self, mut id: usize) -> Vec<String> {
        let mut order = Vec::new();
        while id > 0 {
            let Reached { before, lane, at } = self.reached[id];
            order.push(self.machine.text(lane, at));
            id = before;
        }
        order.reverse();
        order
    }
}

/// Two orders from where they part.
fn parted(one: Vec<String>, other: Vec<String>) -> [Vec<String>; 2] {
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    [one[same..].to_vec(), other[same..].to_vec()]
}
