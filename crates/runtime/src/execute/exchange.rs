//! What a rank does at a move by messages: packs, exchanges, puts what came where it belongs.

use super::{Job, Rendezvous, copy_pieces};
use crate::engine::Exchange;
use crate::instantiate::{Messages, Spot};
use crate::kernels::{self, Scratch};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use smallvec::SmallVec;

/// Exchanges, and returns when what was received is in its place.
pub(super) fn run(
    job: &Job,
    device: DeviceId,
    messages: &Messages,
    scratch: &Scratch,
    rendezvous: &impl Rendezvous,
) {
    let arenas = &job.arenas;
    let own = device.index();
    if let Some((combine, region)) = &messages.fill {
        kernels::fill_identity(*combine, messages.dtype, arenas.write(own, region.clone()));
    }
    let mut packed = scratch.buffer::<u8>(messages.packed);
    for pack in &messages.packs {
        let mut at = pack.at;
        for chunk in &pack.chunks {
            chunk.runs.for_each(|run| {
                let source = chunk.source + run.source;
                packed[at..at + run.bytes].copy_from_slice(arenas.read(own, source..source + run.bytes));
                at += run.bytes;
            });
        }
    }
    let mut mail = scratch.buffer::<u8>(messages.mail);
    {
        let sends: SmallVec<[(usize, &[u8]); 8]> = messages
            .sends
            .iter()
            .map(|(to, spot)| match spot {
                Spot::Arena(region) => (*to, arenas.read(own, region.clone())),
                Spot::Mail(region) => (*to, &packed[region.clone()]),
            })
            .collect();
        // Messages lie in the mail in the order in which they are listed.
        let mut rest = &mut mail[..];
        let mut receives: SmallVec<[(usize, &mut [u8]); 8]> = SmallVec::new();
        for (from, spot) in &messages.receives {
            receives.push((
                *from,
                match spot {
                    Spot::Arena(region) => arenas.write(own, region.clone()),
                    Spot::Mail(region) => {
                        rest.split_off_mut(..region.len()).expect("the mail has room for all messages")
                    }
                },
            ));
        }
        let Messages { stream, form, members, most, .. } = messages;
        rendezvous.exchange(Exchange {
            stream: *stream,
            form: *form,
            members,
            most: *most,
            sends: &sends,
            receives: &mut receives,
        });
    }
    if let Some(copy) = &messages.copy {
        copy_pieces(arenas, device, copy, &mail);
    }
}
