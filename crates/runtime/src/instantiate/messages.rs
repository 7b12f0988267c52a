//! A move between devices that share no memory: what a rank sends to whom, and where what it receives goes.
//!
//! ```text
//!  what 2 takes of 0   several stretches ─ pack ─▶ mail ── message ─▶ mail ─▶ combined with others, into 2's target
//!  what 2 takes of 1   one stretch ─────────────────────── message ─▶ straight into 2's target
//! ```
//!
//! All of it follows from what each device takes ([`Phase`]): what 2 takes of 0 is what 0 sends to 2, in the same
//! order. So sender and receiver agree without asking each other, and all members see the same form.

use super::moves::Phase;
use super::runs::{Run, Runs};
use super::tasks::{Chunk, Copy, Lies, Messages, Onto, Pack, Part, Spot, Transfer};
use crate::engine::Form;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Of fewer members, one message to each is all that a collective could be.
const LEAST_COLLECTIVE: usize = 3;

/// Devices that exchange messages in a phase, in ascending order.
pub(super) struct Island<'a> {
    pub phase: &'a Phase,
    pub members: &'a [usize],
}

/// What goes from one member to another; pairs between which nothing goes are not there.
type Pairs = BTreeMap<(usize, usize), Vec<Chunk>>;

impl Island<'_> {
    /// What one member does.
    pub fn messages(&self, own: usize, stream: usize) -> Messages {
        let pairs = self.pairs();
        let form = self.form(&pairs);
        let Sent { packs, sends, packed } = self.sent(own, form, &pairs);
        let Received { receives, mail, copy } = self.received(own, form, &pairs);
        let to_own = pairs.iter().filter(|((_, to), _)| *to == own);
        let taken = to_own.map(|((from, _), chunks)| (DeviceId::new(*from), bytes_of(chunks))).collect();
        let fill = self.phase[own].as_ref().and_then(|copy| copy.fill.clone());
        let (members, most) = (self.members.into(), self.most(form, &pairs));
        let dtype =
            self.members.iter().find_map(|&member| self.phase[member].as_ref()).map(|copy| copy.dtype);
        let dtype = dtype.expect("in an island of several devices one takes something of another");
        Messages {
            stream,
            form,
            members,
            most,
            dtype,
            fill,
            packs,
            sends,
            packed,
            receives,
            mail,
            copy,
            taken,
        }
    }

    /// The transfers of a member.
    fn transfers(&self, of: usize) -> &[Transfer] {
        self.phase[of].as_ref().map_or(&[], |copy| &copy.transfers)
    }

    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        for &to in self.members {
            for transfer in self.transfers(to).iter().filter(|transfer| transfer.runs.bytes() > 0) {
                for part in transfer.parts.iter().filter(|part| part.from.index() != to) {
                    let chunk = Chunk { source: part.source, runs: transfer.runs.clone() };
                    pairs.entry((part.from.index(), to)).or_default().push(chunk);
                }
            }
        }
        pairs
    }

    fn form(&self, pairs: &Pairs) -> Form {
        let count = self.members.len();
        if count < LEAST_COLLECTIVE {
            return Form::Messages;
        }
        let to_all_alike = |from: usize| {
            let mut all = self.others(from).map(|to| pairs.get(&(from, to)));
            let first = all.next();
            all.all(|other| Some(other) == first)
        };
        if self.members.iter().all(|&from| to_all_alike(from)) {
            let mut senders = self.members.iter().filter(|&&from| pairs.keys().any(|pair| pair.0 == from));
            return match (senders.next(), senders.next()) {
                (Some(&root), None) => Form::Broadcast { root },
                _ => Form::AllGather,
            };
        }
        match 2 * pairs.len() >= count * (count - 1) {
            true => Form::AllToAll,
            false => Form::Messages,
        }
    }

    fn others(&self, member: usize) -> impl Iterator<Item = usize> {
        self.members.iter().copied().filter(move |&other| other != member)
    }

    /// What a member of an island in which each sends the same to all sends to each.
    fn share(&self, of: usize, pairs: &Pairs) -> usize {
        let to = self.others(of).next();
        to.and_then(|to| pairs.get(&(of, to))).map_or(0, |chunks| bytes_of(chunks))
    }

    /// The most that a member sends or receives.
    fn most(&self, form: Form, pairs: &Pairs) -> usize {
        if form == Form::AllGather {
            return self.members.iter().map(|&member| self.share(member, pairs)).sum();
        }
        let (mut sent, mut received) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
        for ((from, to), chunks) in pairs {
            *sent.entry(*from).or_default() += bytes_of(chunks);
            *received.entry(*to).or_default() += bytes_of(chunks);
        }
        sent.into_values().chain(received.into_values()).max().unwrap_or(0)
    }

    fn sent(&self, own: usize, form: Form, pairs: &Pairs) -> Sent {
        let (mut packs, mut sends, mut packed) = (Vec::new(), Vec::new(), 0);
        let mut all_alike: Option<Spot> = None;
        for to in self.others(own) {
            let Some(chunks) = pairs.get(&(own, to)) else { continue };
            let spot = match (form, &all_alike) {
                (Form::AllGather | Form::Broadcast { .. }, Some(spot)) => spot.clone(),
                (Form::AllToAll, _) => pack(chunks, &mut packs, &mut packed),
                _ => straight(chunks).unwrap_or_else(|| pack(chunks, &mut packs, &mut packed)),
            };
            all_alike = Some(spot.clone());
            sends.push((to, spot));
        }
        Sent { packs: packs.into(), sends: sends.into(), packed }
    }

    fn received(&self, own: usize, form: Form, pairs: &Pairs) -> Received {
        if let (Form::AllGather, Some(receives)) = (form, self.gathered_straight(own, pairs)) {
            return Received { receives, mail: 0, copy: None };
        }
        let mut mail = 0;
        let mut post = |bytes: usize| {
            mail += bytes;
            mail - bytes..mail
        };
        let mut receives: Vec<(usize, Spot)> = Vec::new();
        // Where the next chunk of each sender lies in the mail.
        let mut next: BTreeMap<usize, usize> = BTreeMap::new();
        for &from in self.members {
            let spot = match (form, pairs.get(&(from, own))) {
                (Form::AllGather, _) => Spot::Mail(post(self.share(from, pairs))),
                (_, None) => continue,
                (Form::AllToAll, Some(chunks)) => Spot::Mail(post(bytes_of(chunks))),
                (_, Some(chunks)) => match self.transfers(own).iter().find_map(|t| alone(t, from, chunks)) {
                    Some(region) => Spot::Arena(region),
                    None => Spot::Mail(post(bytes_of(chunks))),
                },
            };
            if let (Spot::Mail(at), true) = (&spot, from != own) {
                next.insert(from, at.start);
            }
            receives.push((from, spot));
        }
        let copy = self.phase[own].as_ref().and_then(|copy| unpacked(copy, own, &mut next));
        Received { receives: receives.into(), mail, copy }
    }

    /// Where what all send comes to lie, if that is one piece behind the other in the target.
    fn gathered_straight(&self, own: usize, pairs: &Pairs) -> Option<Box<[(usize, Spot)]>> {
        let transfers = self.transfers(own);
        let mut receives: Vec<(usize, Spot)> = Vec::new();
        let mut end: Option<usize> = None;
        let mut straight = 0;
        for &from in self.members {
            let bytes = self.share(from, pairs);
            let region = match bytes {
                0 => end.map_or(0..0, |end| end..end),
                _ => {
                    let own_part =
                        |t: &&Transfer| matches!(&t.parts[..], [part] if part.from.index() == from);
                    let mut of_sender = transfers.iter().filter(own_part);
                    let (transfer, None) = (of_sender.next()?, of_sender.next()) else { return None };
                    straight += 1;
                    straight_target(transfer)?
                }
            };
            if region.len() != bytes || bytes > 0 && end.is_some_and(|end| end != region.start) {
                return None;
            }
            if bytes > 0 {
                end = Some(region.end);
            }
            receives.push((from, Spot::Arena(region)));
        }
        (straight == transfers.len()).then(|| receives.into())
    }
}

/// What a member sends.
struct Sent {
    /// What is put together before.
    packs: Box<[Pack]>,
    sends: Box<[(usize, Spot)]>,
    /// How many bytes are put together.
    packed: usize,
}

/// What a member receives.
struct Received {
    receives: Box<[(usize, Spot)]>,
    /// How many bytes do not go straight to where they belong.
    mail: usize,
    /// What is done when all is there.
    copy: Option<Copy>,
}

fn bytes_of(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.runs.bytes()).sum()
}

/// The bytes of one stretch of the sender's memory, if that is what goes.
fn straight(chunks: &[Chunk]) -> Option<Spot> {
    let [Chunk { source, runs }] = chunks else { return None };
    stretch(runs, *source, |run| run.source).map(Spot::Arena)
}

/// Several stretches one behind the other.
fn pack(chunks: &[Chunk], packs: &mut Vec<Pack>, packed: &mut usize) -> Spot {
    let at = *packed;
    packs.push(Pack { at, chunks: chunks.into() });
    *packed += bytes_of(chunks);
    Spot::Mail(at..*packed)
}

/// Where a transfer puts what it takes, if it is all that is taken of a sender, and is put there as it comes.
fn alone(transfer: &Transfer, from: usize, chunks: &[Chunk]) -> Option<Range<usize>> {
    let [part] = &transfer.parts[..] else { return None };
    let all = part.from.index() == from && chunks.len() == 1 && transfer.runs == chunks[0].runs;
    all.then(|| straight_target(transfer)).flatten()
}

/// The one stretch that a transfer writes as it comes.
fn straight_target(transfer: &Transfer) -> Option<Range<usize>> {
    let replaces = transfer.parts.len() == 1 && transfer.onto == Onto::Nothing;
    replaces.then(|| stretch(&transfer.runs, transfer.target, |run| run.target)).flatten()
}

/// The one stretch, in the order in which it goes, that runs are on one of their ends.
fn stretch(runs: &Runs, start: usize, end_of: fn(&Run) -> usize) -> Option<Range<usize>> {
    let mut all: Option<Range<usize>> = None;
    let mut is_one = true;
    runs.for_each(|run| {
        let at = start + end_of(&run);
        match &mut all {
            Some(all) if all.end == at => all.end += run.bytes,
            Some(_) => is_one = false,
            None => all = Some(at..at + run.bytes),
        }
    });
    all.filter(|_| is_one)
}

/// What is left to do when all has come: what is in the mail goes to where it belongs, and is combined. What has
/// come straight is done.
fn unpacked(copy: &Copy, own: usize, next: &mut BTreeMap<usize, usize>) -> Option<Copy> {
    let mut transfers = Vec::new();
    for transfer in copy.transfers.iter().filter(|transfer| transfer.runs.bytes() > 0) {
        let part = |part: &Part| match next.get_mut(&part.from.index()) {
            Some(at) => {
                *at += transfer.runs.bytes();
                Some(Part { source: *at - transfer.runs.bytes(), lies: Lies::InMail, ..*part })
            }
            None => (part.from.index() == own).then_some(*part),
        };
        let parts: Vec<Part> = transfer.parts.iter().filter_map(part).collect();
        if !parts.is_empty() {
            let (onto, target, runs) = (transfer.onto, transfer.target, transfer.runs.clone());
            transfers.push(Transfer { parts: parts.into(), onto, target, runs });
        }
    }
    (!transfers.is_empty()).then(|| Copy { transfers: transfers.into(), fill: None, ..*copy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Place;
    use crate::instantiate::planned::planned;
    use crate::instantiate::{Lending, Loans, Reads, Streams, Work, instantiate};

    /// What each of the ranks exchanges at `y = reshard(x)`, one phase after another.
    fn exchanged(x: &str, from: &str, to: &str, hosts: &[u32]) -> Vec<Vec<Messages>> {
        let statements = format!("input x: {x}\ny = reshard(x)\noutput y");
        let plan = planned(hosts.len(), &statements, &format!("x: {from}\ny: {to}"), &[]);
        let of_rank = |rank| {
            let lending = Lending { loans: Loans::WhereItPays, reads: Reads::InPlace };
            let (hosts, machines, cores) = (hosts.to_vec(), hosts.to_vec(), vec![1; hosts.len()]);
            let place = Place { rank, hosts, machines, cores };
            let mut tasks = instantiate(&plan.host, Streams::Merged, lending, Some(&place))
                .expect("it can be instantiated");
            let own = tasks.lanes.keys().find(|&lane| tasks.lanes[lane].device.index() == rank);
            let own = std::mem::take(&mut tasks.lanes[own.expect("the rank plays a device")].tasks);
            let messages = own.into_iter().filter_map(|task| match task.work {
                Work::Exchange(messages) => Some(*messages),
                _ => None,
            });
            messages.collect::<Vec<_>>()
        };
        (0..hosts.len()).map(of_rank).collect()
    }

    fn forms(all: &[Vec<Messages>]) -> Vec<Form> {
        let of = |rank: &Vec<Messages>| rank.iter().map(|messages| messages.form).collect::<Vec<_>>();
        assert!(all.iter().all(|rank| of(rank) == of(&all[0])), "all members see the same forms");
        of(&all[0])
    }

    const APART: [u32; 4] = [0, 1, 2, 3];

    #[test]
    fn members_see_the_form_of_what_they_exchange() {
        let x = "f32[s=8, e=4]";
        for (from, to, expected) in [
            ("s/tp", "replicated", &[Form::AllGather][..]),
            ("s/tp(2, 0, 5, 1)", "replicated", &[Form::AllGather]),
            ("e/tp", "replicated", &[Form::AllGather]),
            ("s/tp", "e/tp", &[Form::AllToAll]),
            ("partial(tp)", "s/tp", &[Form::AllToAll]),
            ("partial(tp)", "replicated", &[Form::AllToAll, Form::AllGather]),
            ("s/tp(8, 0, 0, 0)", "replicated", &[Form::Broadcast { root: 0 }]),
            ("s/tp(0, 0, 8, 0)", "s/tp(8, 0, 0, 0)", &[Form::Messages]),
        ] {
            assert_eq!(forms(&exchanged(x, from, to, &APART)[..1]), expected, "{from} to {to}");
        }
        forms(&exchanged(x, "partial(tp)", "replicated", &APART));
    }

    #[test]
    fn only_islands_that_span_hosts_exchange_messages() {
        let x = "f32[s=8, e=4]";
        let count = |from: &str, to: &str, hosts: &[u32]| -> Vec<usize> {
            exchanged(x, from, to, hosts).iter().map(Vec::len).collect()
        };
        assert_eq!(count("s/tp", "replicated", &[0, 0, 0, 0]), [0; 4]);
        assert_eq!(count("s/tp", "replicated", &[0, 0, 0, 1]), [1; 4]);
    }

    #[test]
    fn what_is_one_stretch_is_not_packed() {
        // Rows: each piece is one stretch, and so is where it goes.
        for messages in exchanged("f32[s=8, e=4]", "s/tp", "replicated", &APART).iter().flatten() {
            assert_eq!((messages.packed, messages.mail), (0, 0));
            assert!(messages.copy.is_none(), "the engine also puts the own piece in its place");
        }
        // Columns: a piece is one stretch, but goes to several.
        for messages in exchanged("f32[s=8, e=4]", "e/tp", "replicated", &APART).iter().flatten() {
            assert_eq!((messages.packed, messages.mail), (0, 8 * 4 * 4));
        }
        // Two members: one message each way, straight to its place.
        for messages in exchanged("f32[s=8, e=4]", "s/tp", "replicated", &[0, 1]).iter().flatten() {
            assert_eq!((messages.form, messages.packed, messages.mail), (Form::Messages, 0, 0));
            assert!(messages.copy.is_some(), "the own piece is copied");
        }
    }

    /// No memory is needed to see what would go.
    #[test]
    fn more_than_two_gigabytes_are_counted() {
        let rows = 3_u64 << 32;
        let all = exchanged(&format!("f32[s={rows}]"), "s/tp", "replicated", &[0, 1, 2]);
        for messages in all.iter().flatten() {
            assert_eq!((messages.form, messages.most as u64), (Form::AllGather, rows * 4));
            let lengths: Vec<usize> = messages
                .receives
                .iter()
                .map(|(_, spot)| match spot {
                    Spot::Arena(region) | Spot::Mail(region) => region.len(),
                })
                .collect();
            assert_eq!(lengths, [4 << 32; 3]);
        }
        let all = exchanged(&format!("f32[s={rows}]"), "partial(tp)", "s/tp", &[0, 1, 2]);
        assert!(all.iter().flatten().all(|messages| messages.most as u64 == 2 * 4 * rows / 3));
    }
}
