//! Summaries of the parts of a dim, and what is finished from them: operations of the forms only.

use super::elementwise::spreads_over;
use super::{CallType, Given, listed};
use crate::diagnostic::{Code, Diagnostic, quote};
use crate::op::{Finish, Summary, number_dim, part_dim};

/// In front of the dims that stay: which part, and which number of it.
pub(super) fn summary(call: CallType<'_>, summary: Summary, dim: &str) -> Result<Given, Diagnostic> {
    let value = call.value(0);
    value.position(call, dim)?;
    let others = value.dims.iter().filter(|d| **d != dim).map(|d| d.to_string());
    let dims = [part_dim(dim), number_dim(dim)].into_iter().chain(others).collect();
    Ok(Given { dims, sizes: vec![(number_dim(dim), summary.numbers())] })
}

/// The dims of the elements; or, where only the summary is read, its dims without those of its own.
pub(super) fn finish<'a>(call: CallType<'a>, finish: Finish, dim: &str) -> Result<Vec<&'a str>, Diagnostic> {
    let own = [part_dim(dim), number_dim(dim)];
    let (said, others) = {
        let mut values: Vec<_> = call.values().collect();
        let said = values.pop().expect("the number of operands was checked");
        (said, values)
    };
    own.iter().try_for_each(|name| said.position(call, name).map(drop))?;
    let stay: Vec<&str> = said.dims.iter().copied().filter(|d| own.iter().all(|name| name != d)).collect();
    let Some((value, along)) = others.split_first().filter(|_| finish.reads_elements()) else {
        return Ok(stay);
    };
    value.position(call, dim)?;
    along.iter().try_for_each(|other| spreads_over(call, *other, *value, dim))?;
    let needed: Vec<&str> = value.dims.iter().copied().filter(|d| *d != dim).collect();
    if needed != stay {
        let message = format!(
            "`{}` works on {}, but {} summarises {}",
            call.name(),
            listed(&needed),
            quote(said.name),
            listed(&stay)
        );
        return Err(call.wrong(Code::MissingDim, message));
    }
    Ok(value.dims.to_vec())
}
