//! The collectives that a plan is to have, and whether it has them.

use super::expression::{Variables, evaluate};
use shardweave_compiler::instr::Kind;
use shardweave_compiler::report::CollectiveReport;
use std::fmt::Write;

/// Whether a plan has to have all that is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// All of it and nothing else.
    Exactly,
    /// Nothing else.
    AtMost,
}

/// A multiset of collectives, or several to choose from.
#[derive(Clone, PartialEq, Debug)]
pub struct Expected {
    limit: Limit,
    alternatives: Vec<Vec<Item>>,
}

/// One collective, as far as it is said.
#[derive(Clone, PartialEq, Debug)]
struct Item {
    times: String,
    kind: Kind,
    value: String,
    attributes: Vec<(Attribute, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attribute {
    Steps,
    Group,
    Bytes,
    Total,
    Axes,
    Via,
}

impl Expected {
    /// `nothing`, `all_gather x steps 2 + all_reduce y`, `all_gather x or all_gather w`.
    pub fn parse(limit: Limit, text: &str) -> Result<Expected, String> {
        let alternative = |text: &str| match text.trim() {
            "nothing" => Ok(Vec::new()),
            text => text.split(" + ").map(Item::parse).collect(),
        };
        let alternatives = text.split(" or ").map(alternative).collect::<Result<_, _>>()?;
        Ok(Expected { limit, alternatives })
    }

    /// Whether a plan's collectives are these; the reason why not.
    pub fn check(&self, found: &[CollectiveReport], variables: &Variables) -> Result<(), String> {
        for items in &self.alternatives {
            let mut open = Vec::new();
            for item in items {
                for _ in 0..evaluate(&item.times, variables)? {
                    open.push(item);
                }
            }
            if self.limit == Limit::Exactly && open.len() != found.len() {
                continue;
            }
            if assign(found, &mut open, variables)? {
                return Ok(());
            }
        }
        Err(format!("the plan has {}", listed(found)))
    }
}

/// Whether each collective found can be given an item of its own.
fn assign(found: &[CollectiveReport], open: &mut Vec<&Item>, variables: &Variables) -> Result<bool, String> {
    let Some((first, rest)) = found.split_first() else { return Ok(true) };
    for at in 0..open.len() {
        if !open[at].matches(first, variables)? {
            continue;
        }
        let item = open.remove(at);
        if assign(rest, open, variables)? {
            return Ok(true);
        }
        open.insert(at, item);
    }
    Ok(false)
}

impl Item {
    fn parse(text: &str) -> Result<Item, String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let times = match words[..] {
            [times, "times", ..] => {
                words.drain(..2);
                times
            }
            _ => "1",
        };
        let [kind, value, attributes @ ..] = &words[..] else {
            return Err(format!("`{text}` is not `KIND VALUE`"));
        };
        let kind = Kind::from_name(kind).ok_or_else(|| format!("`{kind}` is no kind of collective"))?;
        let pairs = attributes.chunks(2).map(|pair| match pair {
            [name, value] => Ok((Attribute::parse(name)?, value.to_string())),
            _ => Err(format!("`{text}` ends in the middle")),
        });
        let attributes = pairs.collect::<Result<_, _>>()?;
        Ok(Item { times: times.into(), kind, value: value.to_string(), attributes })
    }

    fn matches(&self, found: &CollectiveReport, variables: &Variables) -> Result<bool, String> {
        let mut all = found.kind == self.kind && found.value == self.value;
        for (attribute, wanted) in &self.attributes {
            all &= match attribute {
                Attribute::Steps => found.steps == evaluate(wanted, variables)?,
                Attribute::Group => found.group == evaluate(wanted, variables)?,
                Attribute::Bytes => found.bytes_per_device == evaluate(wanted, variables)?,
                Attribute::Total => found.bytes_total == evaluate(wanted, variables)?,
                Attribute::Axes => found.axes.join(",") == *wanted,
                Attribute::Via => found.overlap.name() == wanted,
            };
        }
        Ok(all)
    }
}

impl Attribute {
    fn parse(name: &str) -> Result<Attribute, String> {
        match name {
            "steps" => Ok(Attribute::Steps),
            "group" => Ok(Attribute::Group),
            "bytes" => Ok(Attribute::Bytes),
            "total" => Ok(Attribute::Total),
            "axes" => Ok(Attribute::Axes),
            "via" => Ok(Attribute::Via),
            other => Err(format!("a collective has no `{other}`")),
        }
    }
}

/// Collectives as `expect` would have them.
pub fn listed(found: &[CollectiveReport]) -> String {
    if found.is_empty() {
        return "nothing".into();
    }
    let mut text = String::new();
    for (n, one) in found.iter().enumerate() {
        let plus = if n == 0 { "" } else { " + " };
        let (kind, value, axes) = (one.kind.name(), &one.value, one.axes.join(","));
        let CollectiveReport { steps, group, bytes_per_device, bytes_total, overlap, .. } = one;
        let via = overlap.name();
        let _ = write!(
            text,
            "{plus}{kind} {value} steps {steps} group {group} axes {axes} bytes {bytes_per_device} total {bytes_total} via {via}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardweave_compiler::placement::Overlap;

    fn found(kind: Kind, value: &str, steps: u64) -> CollectiveReport {
        CollectiveReport {
            kind,
            value: value.into(),
            subject: shardweave_compiler::report::Subject::Value,
            axes: vec!["tp".into()],
            group: 4,
            steps,
            overlap: Overlap::None,
            bytes_per_device: 16,
            bytes_total: 64,
            because: String::new(),
        }
    }

    fn holds(limit: Limit, text: &str, plan: &[CollectiveReport]) -> bool {
        let variables = Variables::from([("o".into(), 2)]);
        Expected::parse(limit, text).expect("it is well formed").check(plan, &variables).is_ok()
    }

    #[test]
    fn plans_are_multisets() {
        let plan = [found(Kind::AllGather, "x", 2), found(Kind::AllReduce, "y", 1)];
        assert!(holds(Limit::Exactly, "all_reduce y + all_gather x steps o group 4 axes tp bytes 8o", &plan));
        assert!(holds(Limit::Exactly, "nothing or all_reduce y + all_gather x", &plan));
        assert!(!holds(Limit::Exactly, "all_gather x", &plan));
        assert!(!holds(Limit::Exactly, "all_reduce y + all_gather x steps 3", &plan));
        assert!(!holds(Limit::Exactly, "2 times all_gather x", &plan));
        assert!(holds(Limit::AtMost, "2 times all_gather x + all_reduce y", &plan));
        assert!(!holds(Limit::AtMost, "2 times all_gather x", &plan));
        assert!(holds(Limit::Exactly, "nothing", &[]));
        // The item that says more must not be taken by the wrong collective.
        let twice = [found(Kind::AllGather, "x", 2), found(Kind::AllGather, "x", 1)];
        assert!(holds(Limit::Exactly, "all_gather x + all_gather x steps 2", &twice));
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for text in ["gather_all x", "all_gather", "all_gather x steps", "all_gather x speed 3"] {
            assert!(Expected::parse(Limit::Exactly, text).is_err(), "{text}");
        }
    }
}
