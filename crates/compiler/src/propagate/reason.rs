//! What is told about a choice: over what an operation runs, who asked for what, what else there was.

use super::PlacedValue;
use super::origin::Origin;
use super::ways::{Asker, Question};
use super::weigh::Weighed;
use crate::id::{Id, Table};
use crate::layout::{Cuts, Layout};
use crate::op::{Space, SpaceDim};
use crate::program::{Operand, ValueId};
use crate::report::{Alternative, Subject, takes_more};
use crate::reshard::Route;
use std::fmt::Write;

/// The layout of a space as text.
pub(super) fn over_text(space: &Space, over: &Layout, home: &str) -> String {
    let names: Vec<&str> = space.dims.values().map(SpaceDim::program_name).collect();
    let nothing = Layout::replicated(over.mesh().clone(), over.ndim());
    if *over == nothing {
        return match over.mesh().name() {
            mesh if mesh == home => "no cut".into(),
            mesh => format!("no cut on {mesh}"),
        };
    }
    over.text(&names, Some(home)).to_string()
}

/// The claims that cannot all be met: an axis asked for on two dims of one operation. Whose layout is
/// derived speaks for the value that the user wrote, its ancestor; a result that follows its operands asks
/// for nothing.
pub(super) fn conflict(
    question: &Question<'_>,
    over: &Layout,
    values: &Table<ValueId, Option<PlacedValue>>,
    ancestors: &Table<ValueId, ValueId>,
) -> Option<String> {
    let follows = |who: Asker| {
        let result = values[question.value].as_ref().map(|placed| &placed.origin);
        who == Asker::Result && matches!(result, Some(Origin::Forward { .. }))
    };
    let mut asks = question.asks(over.mesh());
    asks.retain(|ask| !follows(ask.who));
    asks.sort_by_key(|ask| ask.who);
    over.mesh().axes().iter().find_map(|(axis, row)| {
        let cut_by_axis =
            |cuts: &[Cuts]| cuts.iter().position(|cuts| cuts.iter().any(|f| f.axis() == Some(axis)));
        // Dims in the order they are asked for, each with those who ask.
        let mut claims: Vec<(usize, Vec<&str>)> = Vec::new();
        for ask in asks.iter().filter(|_| row.size > 1) {
            let Some(dim) = cut_by_axis(&ask.cuts) else { continue };
            let who = name_of(question, ask.who, ancestors);
            match claims.iter_mut().find(|claim| claim.0 == dim) {
                Some((_, by)) if by.contains(&who) => {}
                Some((_, by)) => by.push(who),
                None => claims.push((dim, vec![who])),
            }
        }
        if claims.len() < 2 {
            return None;
        }
        let cut = |dim: usize| format!("{}/{}", question.space.dims[Id::new(dim)].program_name(), row.name);
        let texts = claims.iter().map(|(dim, by)| {
            let verb = if by.len() == 1 { "asks" } else { "ask" };
            format!("{} {verb} for {}", by.join(" and "), cut(*dim))
        });
        let taken = cut_by_axis(over.cuts()).map_or_else(|| format!("no cut over {}", row.name), cut);
        Some(format!("{}; {taken} is cheapest", texts.collect::<Vec<_>>().join(", ")))
    })
}

fn name_of<'a>(question: &Question<'a>, who: Asker, ancestors: &Table<ValueId, ValueId>) -> &'a str {
    let value = match who {
        Asker::Result => question.value,
        Asker::Operand(k) => match question.apply.operands[k] {
            Operand::Value(value) => value,
            Operand::Number(_) => unreachable!("a number asks for nothing"),
        },
    };
    &question.program.values[ancestors[value]].name
}

/// A way that was not taken, if it is worth telling: it or the one taken communicates, and they do not
/// move the same.
pub(super) fn alternative(question: &Question<'_>, best: &Weighed, other: &Weighed) -> Option<Alternative> {
    let communicates = |w: &Weighed| w.bytes_total > 0;
    if !communicates(best) || best.way.over == other.way.over {
        return None;
    }
    let moves = describe_moves(question, other);
    let over = over_text(question.space, &other.way.over, question.home.name());
    let because = if other.time_us > best.time_us {
        takes_more(other.time_us, best.time_us)
    } else {
        "a tie; weight before bias before input, then program order".to_string()
    };
    Some(Alternative {
        value: question.program.values[question.value].name.clone(),
        instead: format!("run over {over}: {moves}"),
        bytes_total: other.bytes_total,
        time_us: other.time_us,
        because,
    })
}

/// What would move.
fn describe_moves(question: &Question<'_>, weighed: &Weighed) -> String {
    let mut text = String::new();
    let mut tell = |value: ValueId, subject: Subject, route: &Route| {
        let name = subject.of(&question.program.values[value].name);
        for leg in route.legs.iter().filter(|leg| leg.traffic.kind.communicates()) {
            let separator = if text.is_empty() { "" } else { ", " };
            write!(text, "{separator}{} of {name}", leg.traffic.kind.name())
                .expect("a string takes any text");
        }
    };
    for (k, route) in &weighed.moves {
        if let Operand::Value(v) = question.apply.operands[*k] {
            tell(v, Subject::Value, route);
        }
    }
    tell(question.value, Subject::Summary, &weighed.summaries);
    tell(question.value, Subject::Value, &weighed.result);
    if text.is_empty() { "nothing moves".into() } else { text }
}
