//! A move between devices that share no memory: what a rank sends to whom, and where what it receives goes.
//!
//! ```text
//!  what 2 takes of 0   several stretches ─ pack ─▶ mail ── message ─▶ mail ─▶ combined with others, into 2's target
//!  what 2 takes of 1   one stretch ─────────────────────── message ─▶ straight into 2's target
//! ```
//!
//! All of it follows from what each device takes ([`Phase`]): what 2 takes of 0 is what 0 sends to 2, in the same
//! order. So sender and receiver agree without asking each other, and all members see the same form.
//!
//! Some forms want what a member sends, or receives, to lie in a row. Where it does so in the arena, it stays there,
//! and if the own piece lies between, that goes along, from the member to itself; else all of it goes by mail.
//!
//! ```text
//!  2 takes of 0, 1, 3    target of 2   of 0 | of 1 | own | of 3     a row with the own piece, which goes along
//!                                      of 0 | of 1 | of 3 | own     a row without it: the own piece is copied
//!                                      of 1 | of 0 | own | of 3     no row: mail
//! ```

use super::moves::Phase;
use super::runs::{Run, Runs};
use super::tasks::{Chunk, Copy, Lies, Messages, Onto, Pack, Part, Spot, Transfer};
use crate::engine::Form;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Of fewer members, one message to each is all that a collective could be.
const LEAST_COLLECTIVE: usize = 3;

/// Devices that exchange messages in a phase, in ascending order.
pub(super) struct Island<'a> {
    pub phase: &'a Phase,
    pub members: &'a [usize],
}

/// What each member takes of each, also of itself, as the phase has it; pairs between which nothing goes are not there.
type Pairs<'a> = BTreeMap<(usize, usize), Vec<Chunk<&'a Runs>>>;

/// With whom something is exchanged, and the stretch of the own arena that it is, if it is one.
type Stretches = Vec<(usize, Option<Range<usize>>)>;

impl<'a> Island<'a> {
    /// What one member does.
    pub fn messages(&self, own: usize, stream: usize) -> Messages {
        let mut pairs = self.pairs();
        let form = self.form(&pairs);
        let (members, most) = (self.members.into(), self.most(form, &pairs));
        match self.goes_along(own, form, &pairs) {
            Some(chunks) => pairs.insert((own, own), chunks),
            None => pairs.remove(&(own, own)),
        };
        let Sent { packs, sends, packed } = self.sent(own, form, &pairs);
        let Received { receives, mail, copy } = self.received(own, form, &pairs);
        let of_others = pairs.iter().filter(|((from, to), _)| *to == own && *from != own);
        let taken = of_others.map(|((from, _), chunks)| (DeviceId::new(*from), bytes_of(chunks))).collect();
        let fill = self.phase[own].as_ref().and_then(|copy| copy.fill.clone());
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

    /// What a member takes.
    fn transfers(&self, of: usize) -> impl Iterator<Item = &'a Transfer> + use<'a> {
        let all = self.phase[of].as_ref().map_or(&[][..], |copy| &copy.transfers);
        all.iter().filter(|transfer| transfer.runs.bytes() > 0)
    }

    fn pairs(&self) -> Pairs<'a> {
        let mut pairs = Pairs::new();
        for &to in self.members {
            for transfer in self.transfers(to) {
                for part in &transfer.parts {
                    let chunk = Chunk { source: part.source, runs: &transfer.runs };
                    pairs.entry((part.from.index(), to)).or_default().push(chunk);
                }
            }
        }
        pairs
    }

    fn form(&self, pairs: &Pairs<'a>) -> Form {
        let count = self.members.len();
        if count < LEAST_COLLECTIVE {
            return Form::Messages;
        }
        let between = || pairs.keys().filter(|(from, to)| from != to);
        let one_sends = only(between().map(|&(from, _)| from));
        let one_receives = only(between().map(|&(_, to)| to));
        let to_all_alike = |from: usize| {
            let mut all = self.others(from).map(|to| pairs.get(&(from, to)));
            let first = all.next();
            all.all(|other| Some(other) == first)
        };
        let alike = self.members.iter().all(|&from| to_all_alike(from));
        match (one_sends, one_receives) {
            (Some(root), _) if alike => Form::Broadcast { root },
            _ if alike => Form::AllGather,
            (None, Some(root)) => Form::Gather { root },
            (Some(root), None) => Form::Scatter { root },
            _ if 2 * between().count() >= count * (count - 1) => Form::AllToAll,
            _ => Form::Messages,
        }
    }

    fn others(&self, member: usize) -> impl Iterator<Item = usize> {
        self.members.iter().copied().filter(move |&other| other != member)
    }

    /// What a member of an island in which each sends the same to all sends to each.
    fn share<'p>(&self, of: usize, pairs: &'p Pairs<'a>) -> Option<&'p Vec<Chunk<&'a Runs>>> {
        self.others(of).next().and_then(|to| pairs.get(&(of, to)))
    }

    /// The most that a member sends or receives. Own pieces count wherever one may go along: whether it does, only its
    /// member knows.
    fn most(&self, form: Form, pairs: &Pairs<'a>) -> usize {
        if form == Form::AllGather {
            let shares = self.members.iter().filter_map(|&member| self.share(member, pairs));
            return shares.map(|chunks| bytes_of(chunks)).sum();
        }
        let (mut sent, mut received) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
        let own_may_go = |member| form.sends_in_a_row(member) || form.receives_in_a_row(member);
        for ((from, to), chunks) in pairs.iter().filter(|((from, to), _)| from != to || own_may_go(*to)) {
            *sent.entry(*from).or_default() += bytes_of(chunks);
            *received.entry(*to).or_default() += bytes_of(chunks);
        }
        sent.into_values().chain(received.into_values()).max().unwrap_or(0)
    }

    /// What a member exchanges with itself: what the form says, else what fills a gap.
    fn goes_along(&self, own: usize, form: Form, pairs: &Pairs<'a>) -> Option<Vec<Chunk<&'a Runs>>> {
        if form == Form::AllGather {
            return self.share(own, pairs).cloned();
        }
        let fills_gap = |all: Stretches| {
            let others = all.iter().filter(|(other, _)| *other != own);
            is_in_a_row(&all) && !is_in_a_row(others)
        };
        let goes_along = form.sends_in_a_row(own) && fills_gap(self.goes(own, pairs))
            || form.receives_in_a_row(own) && fills_gap(self.comes(own, pairs));
        pairs.get(&(own, own)).filter(|_| goes_along).cloned()
    }

    /// What goes from a member.
    fn goes(&self, own: usize, pairs: &Pairs<'a>) -> Stretches {
        let goes = |to| Some((to, straight(pairs.get(&(own, to))?)));
        self.members.iter().filter_map(|&to| goes(to)).collect()
    }

    /// What comes to a member.
    fn comes(&self, own: usize, pairs: &Pairs<'a>) -> Stretches {
        // The transfer by which something of each is taken, if it is one.
        let mut takes: BTreeMap<usize, Option<&Transfer>> = BTreeMap::new();
        for transfer in self.transfers(own) {
            for part in &transfer.parts {
                let takes = takes.entry(part.from.index());
                takes.and_modify(|transfer| *transfer = None).or_insert(Some(transfer));
            }
        }
        let comes = |from| {
            let chunks = pairs.get(&(from, own))?;
            let transfer = takes.get(&from).copied().flatten();
            // What all are sent need not be what the sender itself takes of it.
            let transfer =
                transfer.filter(|transfer| matches!(&chunks[..], [chunk] if *chunk.runs == transfer.runs));
            Some((from, transfer.and_then(straight_target)))
        };
        self.members.iter().filter_map(|&from| comes(from)).collect()
    }

    fn sent(&self, own: usize, form: Form, pairs: &Pairs<'a>) -> Sent {
        let goes = self.goes(own, pairs);
        let stays = !form.sends_in_a_row(own) || is_in_a_row(&goes);
        let (mut packs, mut packed) = (Vec::new(), 0);
        let mut sends: Vec<(usize, Spot)> = Vec::new();
        for (to, stretch) in goes {
            let spot = match (sends.last(), stretch) {
                (Some((_, spot)), _) if form.sends_alike() => spot.clone(),
                (_, Some(region)) if stays => Spot::Arena(region),
                _ => pack(&pairs[&(own, to)], &mut packs, &mut packed),
            };
            sends.push((to, spot));
        }
        Sent { packs: packs.into(), sends: sends.into(), packed }
    }

    fn received(&self, own: usize, form: Form, pairs: &Pairs<'a>) -> Received {
        let comes = self.comes(own, pairs);
        let stays = !form.receives_in_a_row(own) || is_in_a_row(&comes);
        let mut mail = 0;
        let mut receives: Vec<(usize, Spot)> = Vec::new();
        for (from, stretch) in comes {
            let bytes = bytes_of(&pairs[&(from, own)]);
            let spot = match stretch.filter(|_| stays) {
                Some(region) => Spot::Arena(region),
                None => {
                    mail += bytes;
                    Spot::Mail(mail - bytes..mail)
                }
            };
            receives.push((from, spot));
        }
        let copy = self.phase[own].as_ref().and_then(|copy| unpacked(copy, own, &receives));
        Received { receives: receives.into(), mail, copy }
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

fn bytes_of(chunks: &[Chunk<&Runs>]) -> usize {
    chunks.iter().map(|chunk| chunk.runs.bytes()).sum()
}

/// The only one of some members.
fn only(members: impl Iterator<Item = usize>) -> Option<usize> {
    let mut members: BTreeSet<usize> = members.collect();
    members.pop_first().filter(|_| members.is_empty())
}

/// Whether each stretch begins where the one before it ends.
fn is_in_a_row<'a>(stretches: impl IntoIterator<Item = &'a (usize, Option<Range<usize>>)>) -> bool {
    let mut end = None;
    let mut follows =
        |stretch: &Range<usize>| end.replace(stretch.end).is_none_or(|end| end == stretch.start);
    stretches.into_iter().all(|(_, stretch)| stretch.as_ref().is_some_and(&mut follows))
}

/// The one stretch of the sender's memory that goes, if it is one.
fn straight(chunks: &[Chunk<&Runs>]) -> Option<Range<usize>> {
    let [Chunk { source, runs }] = chunks else { return None };
    stretch(runs, *source, |run| run.source)
}

/// Several stretches one behind the other.
fn pack(chunks: &[Chunk<&Runs>], packs: &mut Vec<Pack>, packed: &mut usize) -> Spot {
    let at = *packed;
    let owned = chunks.iter().map(|chunk| Chunk { source: chunk.source, runs: chunk.runs.clone() });
    packs.push(Pack { at, chunks: owned.collect() });
    *packed += bytes_of(chunks);
    Spot::Mail(at..*packed)
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

/// What is left to do when all has come: what is in the mail goes to where it belongs, and is combined; what has
/// come straight is done. Own pieces are taken from where they lie, unless they have come straight as well.
fn unpacked(copy: &Copy, own: usize, receives: &[(usize, Spot)]) -> Option<Copy> {
    // Where the next chunk of each other sender lies in the mail.
    let mut next: BTreeMap<usize, usize> = BTreeMap::new();
    let mut own_is_left = true;
    for (from, spot) in receives {
        match spot {
            Spot::Mail(at) if *from != own => drop(next.insert(*from, at.start)),
            Spot::Arena(_) if *from == own => own_is_left = false,
            _ => {}
        }
    }
    let mut transfers = Vec::new();
    for transfer in copy.transfers.iter().filter(|transfer| transfer.runs.bytes() > 0) {
        let part = |part: &Part| match next.get_mut(&part.from.index()) {
            Some(at) => {
                *at += transfer.runs.bytes();
                Some(Part { source: *at - transfer.runs.bytes(), lies: Lies::InMail, ..*part })
            }
            None => (part.from.index() == own && own_is_left).then_some(*part),
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

    /// The forms that all members see.
    fn forms(all: &[Vec<Messages>]) -> Vec<Form> {
        let of = |rank: &Vec<Messages>| {
            rank.iter().map(|messages| (messages.form, messages.most)).collect::<Vec<_>>()
        };
        let members: Vec<_> = all.iter().map(of).filter(|seen| !seen.is_empty()).collect();
        assert!(members.iter().all(|seen| *seen == members[0]), "all members see the same: {members:?}");
        members[0].iter().map(|seen| seen.0).collect()
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
            ("s/tp", "s/tp(8, 0, 0, 0)", &[Form::Gather { root: 0 }]),
            ("s/tp(3, 0, 4, 1)", "s/tp(0, 0, 8, 0)", &[Form::Gather { root: 2 }]),
            ("s/tp(3, 0, 5, 0)", "s/tp(0, 8, 0, 0)", &[Form::Gather { root: 1 }]),
            ("partial(tp)", "s/tp(0, 8, 0, 0)", &[Form::Gather { root: 1 }]),
            ("s/tp(8, 0, 0, 0)", "s/tp", &[Form::Scatter { root: 0 }]),
            ("s/tp(0, 0, 8, 0)", "s/tp(3, 0, 4, 1)", &[Form::Scatter { root: 2 }]),
            ("s/tp(0, 8, 0, 0)", "s/tp(4, 0, 4, 0)", &[Form::Scatter { root: 1 }]),
            ("s/tp(0, 0, 8, 0)", "s/tp(8, 0, 0, 0)", &[Form::Messages]),
            ("s/tp(4, 4, 0, 0)", "s/tp(0, 8, 0, 0)", &[Form::Messages]),
            ("s/tp(0, 8, 0, 0)", "s/tp(4, 4, 0, 0)", &[Form::Messages]),
        ] {
            assert_eq!(forms(&exchanged(x, from, to, &APART)), expected, "{from} to {to}");
        }
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

    /// What one member sends and receives, each as `rank:bytes`, with `*` where it is packed or in the mail; and whether
    /// it copies of its own.
    fn exchanged_text(messages: &Messages) -> String {
        let spot = |(rank, spot): &(usize, Spot)| match spot {
            Spot::Arena(region) => format!("{rank}:{}", region.len()),
            Spot::Mail(region) => format!("{rank}:{}*", region.len()),
        };
        let list = |spots: &[(usize, Spot)]| spots.iter().map(spot).collect::<Vec<_>>().join(" ");
        let exchanged = format!("{} -> {}", list(&messages.sends), list(&messages.receives));
        let mut parts = messages.copy.iter().flat_map(|copy| &copy.transfers).flat_map(|t| &t.parts);
        let copies = parts.any(|part| part.lies == Lies::InArena);
        exchanged.trim().to_string() + if copies { ", own" } else { "" }
    }

    /// Rows of 16 bytes, 8 of them.
    #[test]
    fn an_own_piece_goes_along_where_it_fills_a_gap() {
        for (from, to, expected) in [
            // The root has the first piece, so the others lie in a row; the second; the last.
            ("s/tp", "s/tp(8, 0, 0, 0)", "-> 1:32 2:32 3:32, own | 0:32 -> | 0:32 -> | 0:32 ->"),
            ("s/tp", "s/tp(0, 8, 0, 0)", "1:32 -> | 1:32 -> 0:32 1:32 2:32 3:32 | 1:32 -> | 1:32 ->"),
            ("s/tp(3, 4, 1, 0)", "s/tp(0, 0, 8, 0)", "2:48 -> | 2:64 -> | -> 0:48 1:64, own | "),
            // It has none.
            ("s/tp(3, 0, 4, 1)", "s/tp(0, 8, 0, 0)", "1:48 -> | -> 0:48 2:64 3:16 | 1:64 -> | 1:16 ->"),
            // Columns come as one stretch, and go to many. Parts are combined when all are there.
            ("e/tp", "s/tp(0, 8, 0, 0)", "1:32 -> | -> 0:32* 2:32* 3:32*, own | 1:32 -> | 1:32 ->"),
            (
                "partial(tp)",
                "s/tp(0, 0, 0, 8)",
                "3:128 -> | 3:128 -> | 3:128 -> | -> 0:128* 1:128* 2:128*, own",
            ),
            // The same the other way.
            ("s/tp(8, 0, 0, 0)", "s/tp", "1:32 2:32 3:32 ->, own | -> 0:32 | -> 0:32 | -> 0:32"),
            ("s/tp(0, 8, 0, 0)", "s/tp", "-> 1:32 | 0:32 1:32 2:32 3:32 -> 1:32 | -> 1:32 | -> 1:32"),
            ("s/tp(0, 8, 0, 0)", "s/tp(3, 0, 4, 1)", "-> 1:48 | 0:48 2:64 3:16 -> | -> 1:64 | -> 1:16"),
            ("s/tp(0, 8, 0, 0)", "e/tp", "-> 1:32 | 0:32* 2:32* 3:32* ->, own | -> 1:32 | -> 1:32"),
            // Rows of a column lie in a row, columns of rows do not. Only who is in the middle has a gap.
            (
                "s/tp(4, 2, 2, 0)",
                "e/tp(2, 1, 1, 0)",
                "1:16* 2:16* -> 1:16 2:16, own | 0:16* 1:8* 2:8* -> 0:16 1:8 2:8 | 0:16* 1:8* -> 0:16 1:8, own | ",
            ),
            (
                "e/tp(2, 1, 1, 0)",
                "s/tp(4, 2, 2, 0)",
                "1:16 2:16 -> 1:16* 2:16*, own | 0:16 1:8 2:8 -> 0:16* 1:8* 2:8*, own | 0:16 1:8 -> 0:16* 1:8*, own | ",
            ),
        ] {
            let all = exchanged("f32[s=8, e=4]", from, to, &APART);
            let told = all.iter().map(|rank| rank.iter().map(exchanged_text).collect::<String>());
            assert_eq!(told.collect::<Vec<_>>().join(" | "), expected, "{from} to {to}");
        }
        // What is sent to itself counts: all members say the same, and only the root knows whether it goes along.
        let all = exchanged("f32[s=8, e=4]", "s/tp", "s/tp(8, 0, 0, 0)", &APART);
        assert!(all.iter().flatten().all(|messages| messages.most == 8 * 16));
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
        assert!(all.iter().flatten().all(|messages| messages.most as u64 == 4 * rows));
    }
}
