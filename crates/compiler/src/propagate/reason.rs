//! What is told about a choice: over what an operation runs, who asked for what, what else there was.

use super::ways::Question;
use super::weigh::Weighed;
use crate::layout::Layout;
use crate::op::{Space, SpaceId};
use crate::program::Operand;
use crate::report::Alternative;
use crate::reshard::Route;
use std::fmt::Write;

/// The layout of a space as text.
pub(super) fn over_text(space: &Space, over: &Layout, home: &str) -> String {
    let names: Vec<&str> = space.dims.values().map(|dim| dim.name.as_str()).collect();
    match over.text(&names, Some(home)).to_string() {
        text if text == "replicated" => "no cut".into(),
        text => text,
    }
}

/// The claims that cannot all be met: an axis asked for on two dims of one operation.
pub(super) fn conflict(question: &Question<'_>, over: &Layout) -> Option<String> {
    let mesh = over.mesh();
    let mut claims: Vec<(String, &Layout, Vec<Vec<SpaceId>>)> = Vec::new();
    for (k, operand) in question.apply.operands.iter().enumerate() {
        if let (Operand::Value(v), Some(layout)) = (operand, question.known(k)) {
            let name = question.program.values[*v].name.clone();
            claims.push((name, layout, question.space.operands[k].clone()));
        }
    }
    if let Some(wanted) = question.wanted {
        claims.push((question.program.values[question.value].name.clone(), wanted, question.space.result.clone()));
    }
    for (axis, row) in mesh.axes().iter().filter(|(_, row)| row.size > 1) {
        let mut asked: Vec<(String, Vec<String>)> = Vec::new();
        for (who, layout, groups) in claims.iter().filter(|(_, layout, _)| layout.mesh().same_grid(mesh)) {
            let Some(group) = layout.cuts_by(axis).map(|dim| &groups[dim]) else { continue };
            let dims: Vec<&str> = group.iter().map(|&d| question.space.dims[d].name.as_str()).collect();
            let dim = dims.join(" ");
            match asked.iter_mut().find(|(d, _)| *d == dim) {
                Some((_, by)) => by.push(who.clone()),
                None => asked.push((dim, vec![who.clone()])),
            }
        }
        if asked.len() > 1 {
            let texts: Vec<String> = asked
                .iter()
                .map(|(dim, by)| format!("{} {} {dim}/{}", by.join(" and "), if by.len() == 1 { "asks for" } else { "ask for" }, row.name))
                .collect();
            let taken = over.cuts().iter().position(|cuts| cuts.iter().any(|f| f.axis() == Some(axis)));
            let taken = match taken.and_then(|dim| question.space.dims.values().nth(dim)) {
                Some(dim) => format!("{}/{} is cheapest", dim.name, row.name),
                None => "neither is cheapest".to_string(),
            };
            return Some(format!("{}; {taken}", texts.join(", ")));
        }
    }
    None
}

/// A way that was not taken, if it is worth telling: it or the one taken communicates, and they do not
/// move the same.
pub(super) fn alternative(
    question: &Question<'_>,
    best: &Weighed,
    other: &Weighed,
) -> Option<Alternative> {
    let communicates = |w: &Weighed| w.bytes_total > 0;
    if !communicates(best) || best.way.over == other.way.over {
        return None;
    }
    let moves = describe_moves(question, other);
    let over = over_text(question.space, &other.way.over, question.home.name());
    let because = if other.time_us > best.time_us {
        format!("{:.1} us more ({:.1} instead of {:.1})", other.time_us - best.time_us, other.time_us, best.time_us)
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
    let mut tell = |name: &str, route: &Route| {
        for leg in route.legs.iter().filter(|leg| leg.traffic.kind.communicates()) {
            let separator = if text.is_empty() { "" } else { ", " };
            write!(text, "{separator}{} of {name}", leg.traffic.kind.name()).expect("a string takes any text");
        }
    };
    for (k, route) in &weighed.moves {
        if let Operand::Value(v) = question.apply.operands[*k] {
            tell(&question.program.values[v].name, route);
        }
    }
    tell(&question.program.values[question.value].name, &weighed.result);
    if text.is_empty() { "nothing moves".into() } else { text }
}
