//! A layout as text: `b/dp, s/stream(4)/tp, partial(cp, max) on grid`.

use super::{Factor, Layout, Peer, Steps};
use crate::dtype::Combine;
use std::fmt;

/// A layout together with the names of its value's dims, for printing.
pub struct LayoutText<'a> {
    layout: &'a Layout,
    dims: &'a [&'a str],
    home: Option<&'a str>,
}

impl Layout {
    /// The text of the layout of a value with these dims; ` on MESH` is left out on the mesh `home`.
    pub fn text<'a>(&'a self, dims: &'a [&'a str], home: Option<&'a str>) -> LayoutText<'a> {
        LayoutText { layout: self, dims, home }
    }

    /// One factor, with its slash.
    pub fn factor_text(&self, factor: &Factor) -> String {
        let name = |axis| &self.mesh().axes()[axis].name;
        match factor {
            Factor::Axis(axis) => format!("/{}", name(*axis)),
            Factor::Sizes(axis, sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                format!("/{}({})", name(*axis), sizes.join(", "))
            }
            Factor::Local(count) => format!("/local({count})"),
            Factor::Stream(Steps::Count(count)) => format!("/stream({count})"),
            Factor::Stream(Steps::Whole) => "/stream".into(),
            Factor::Stream(Steps::Auto(_)) => "/stream(auto)".into(),
            Factor::Step(count, step) => format!("/step({count}, {step})"),
            Factor::Peer(Peer { axis, sizes, whose, step }) => {
                let sizes = sizes.iter().flat_map(|sizes| sizes.iter()).map(|size| format!(", {size}"));
                format!("/{}({}, {step}{})", whose.name(), name(*axis), sizes.collect::<String>())
            }
        }
    }
}

/// As a placement writes it, the dims by their numbers, since a layout does not know their names:
/// `d0/dp, d1/tp on grid`. With names it is [`Layout::text`].
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (0..self.ndim()).map(|dim| format!("d{dim}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.text(&names, None).fmt(f)
    }
}

impl fmt::Display for LayoutText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.layout;
        let mut parts: Vec<String> = Vec::new();
        for (name, factors) in self.dims.iter().zip(layout.cuts()) {
            if !factors.is_empty() {
                let cuts: String = factors.iter().map(|factor| layout.factor_text(factor)).collect();
                parts.push(format!("{name}{cuts}"));
            }
        }
        for combine in Combine::ALL {
            let of_kind = layout.partial().iter().filter(|p| p.combine == combine);
            let axes: Vec<&str> = of_kind.map(|p| layout.mesh().axes()[p.axis].name.as_str()).collect();
            if !axes.is_empty() {
                let operator = if combine == Combine::Sum { String::new() } else { format!(", {combine}") };
                parts.push(format!("partial({}{operator})", axes.join(", ")));
            }
        }
        if parts.is_empty() {
            parts.push("replicated".into());
        }
        f.write_str(&parts.join(", "))?;
        match self.home {
            Some(home) if home == layout.mesh().name() => Ok(()),
            _ => write!(f, " on {}", layout.mesh().name()),
        }
    }
}
