//! Host programs by hand: buffers one after another, instructions on one stream.
#![allow(dead_code)] // each test file uses its part

use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{
    Action, Buffer, BufferId, EventId, HostInstr, HostLoop, HostProgram, Role, StreamId, Verified,
};
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::instr::{Arg, Compute, Move, Path, TensorType};
use shardweave_compiler::layout::{IndexSet, LayoutScope, Lookup, StepId, Writer, parse_layout, volume};
use shardweave_compiler::mesh::Mesh;
use shardweave_compiler::op::{Op, space};
use shardweave_compiler::placement::Overlap;
use shardweave_compiler::text::Cursor;
use shardweave_compiler::transfer::Traffic;
use shardweave_runtime::execute::{Backend, Record};
use shardweave_runtime::session::{Inputs, Outputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, ReadError, Tensor};
use std::sync::{Arc, Mutex};

/// A mesh with the given axes; devices `0, 1, ...` unless listed.
pub fn mesh(name: &str, axes: &[(&str, u64)], devices: Option<&[u64]>) -> Arc<Mesh> {
    let axes = axes.iter().map(|(name, size)| (name.to_string(), *size));
    Arc::new(Mesh::new(name, axes, devices.map(<[u64]>::to_vec)).expect("a mesh that can be"))
}

/// The type of a value with these dims, laid out as the text says; `home` is the mesh unless it ends in
/// ` on MESH`.
pub fn ty(
    dtype: DType,
    dims: &[(&str, u64)],
    layout: &str,
    home: &Arc<Mesh>,
    meshes: &[Arc<Mesh>],
) -> TensorType {
    let names: Vec<&str> = dims.iter().map(|(name, _)| *name).collect();
    let lookup = |name: &str| match meshes.iter().find(|mesh| mesh.name() == name) {
        Some(mesh) => Lookup::Found(mesh.clone()),
        None => Lookup::Unknown,
    };
    let scope = LayoutScope {
        value: "x",
        dims: Some(&names),
        home: Some(home),
        meshes: &lookup,
        writer: Writer::Compiler,
    };
    let mut cursor = Cursor::new(layout);
    let layout = parse_layout(&mut cursor, &scope).unwrap_or_else(|_| panic!("{layout} is a layout"));
    TensorType { dims: dims.iter().map(|(name, size)| (name.to_string(), *size)).collect(), dtype, layout }
}

/// A host program in the making.
pub struct Hand {
    program: HostProgram,
    /// What is freed at the end.
    alive: Vec<BufferId>,
}

impl Hand {
    pub fn new() -> Hand {
        Hand {
            program: HostProgram {
                name: "hand".into(),
                buffers: Table::new(),
                streams: 1,
                events: 0,
                body: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                arena: 0,
                devices: 0,
            },
            alive: Vec::new(),
        }
    }

    fn buffer(&mut self, name: &str, ty: TensorType, role: Role) -> BufferId {
        let piece: u64 = ty.layout.largest_piece(&ty.sizes()).iter().product();
        let bytes = piece * ty.dtype.size();
        let offset = self.program.arena;
        self.program.arena += bytes.next_multiple_of(64);
        self.program.devices = self.program.devices.max(ty.layout.mesh().device_bound());
        self.program.buffers.push(Buffer {
            name: name.into(),
            ty,
            role,
            offset,
            bytes,
            slots: 1,
            view: None,
            lender: None,
        })
    }

    /// A buffer that holds an input.
    pub fn input(&mut self, name: &str, ty: TensorType) -> BufferId {
        let id = self.buffer(name, ty, Role::Argument);
        self.program.inputs.push((name.into(), id));
        id
    }

    /// A buffer that holds an output, allocated.
    pub fn output(&mut self, name: &str, ty: TensorType) -> BufferId {
        let id = self.buffer(name, ty, Role::Result);
        self.push(Action::Alloc(id));
        self.program.outputs.push((name.into(), id));
        id
    }

    /// A buffer that is an output as it is.
    pub fn program_output(&mut self, name: &str, buffer: BufferId) {
        self.program.outputs.push((name.into(), buffer));
    }

    /// A buffer between, allocated; freed at the end.
    pub fn temporary(&mut self, name: &str, ty: TensorType) -> BufferId {
        let id = self.inner(name, ty);
        self.push(Action::Alloc(id));
        self.alive.push(id);
        id
    }

    /// A buffer of one step; the loop allocates and frees it.
    pub fn inner(&mut self, name: &str, ty: TensorType) -> BufferId {
        self.buffer(name, ty, Role::Temporary)
    }

    /// An action on stream 0.
    pub fn push(&mut self, action: Action) {
        self.push_on(0, action);
    }

    /// An action on a stream.
    pub fn push_on(&mut self, stream: usize, action: Action) {
        self.program.streams = self.program.streams.max(stream + 1);
        self.program.body.push(HostInstr::On(StreamId::new(stream), action));
    }

    /// Records or waits for an event.
    pub fn event(&mut self, stream: usize, event: usize, action: fn(EventId) -> Action) {
        self.program.events = self.program.events.max(event + 1);
        self.push_on(stream, action(EventId::new(event)));
    }

    /// Moves a value, by whatever pattern that is.
    pub fn moved(&self, source: BufferId, target: BufferId) -> Action {
        let ty = |buffer| &self.program.buffers[buffer].ty;
        let Traffic { kind, axes, group, .. } = Traffic::of(ty(source), ty(target));
        let because = kind.communicates().then(|| "asked".into());
        Action::Move(Move { kind, source, target, axes, group, path: Path::Direct, because })
    }

    /// Computes, the space laid out as the text says.
    pub fn computed(
        &self,
        op: Op,
        operands: &[Arg<BufferId>],
        result: BufferId,
        over: &str,
        home: &Arc<Mesh>,
    ) -> Action {
        let dims = |arg: &Arg<BufferId>| match arg {
            Arg::Value(buffer) => self.program.buffers[*buffer].ty.dims.clone(),
            Arg::Number(_) => Vec::new(),
        };
        let operand_dims: Vec<_> = operands.iter().map(dims).collect();
        let space = space(&op, &operand_dims, &self.program.buffers[result].ty.dims);
        let dims: Vec<(&str, u64)> = space.dims.values().map(|dim| (dim.name.as_str(), dim.size)).collect();
        let over = ty(DType::F32, &dims, over, home, &[]).layout;
        Action::Compute(Compute { op, operands: operands.to_vec(), result, space, over })
    }

    /// A loop of one counter on stream 0.
    pub fn repeat(&mut self, step: usize, count: u64, body: Vec<Action>) {
        let body = body.into_iter().map(|action| HostInstr::On(StreamId::new(0), action)).collect();
        let counters = vec![(StepId::new(step), count)];
        let steps = HostLoop { counters, overlap: Overlap::None, stages: vec![body] };
        self.program.body.push(HostInstr::Loop(steps));
    }

    /// The program; temporaries are freed.
    pub fn finish(mut self) -> HostProgram {
        for id in std::mem::take(&mut self.alive) {
            self.push(Action::Free(id));
        }
        self.program
    }
}

/// Waits for an event's last recording.
pub fn wait(event: EventId) -> Action {
    Action::Wait { event, back: 0 }
}

/// Both backends, recording bytes.
pub fn options(backend: Backend) -> SessionOptions {
    SessionOptions { backend, record: Record::Bytes, ..SessionOptions::default() }
}

/// The backends.
pub const BACKENDS: [Backend; 2] = [Backend::Threads, Backend::Lockstep];

/// A hand-written program, proved.
pub fn verified(host: &HostProgram) -> Verified {
    Verified::new(host.clone()).unwrap_or_else(|fault| panic!("{fault}"))
}

/// A session on a hand-written program.
pub fn session(host: &HostProgram, options: SessionOptions) -> Session {
    Session::from_host(&verified(host), options).unwrap_or_else(|error| panic!("{error}"))
}

/// One run.
pub fn run(host: &HostProgram, backend: Backend, inputs: &Inputs) -> Outputs {
    session(host, options(backend)).run(inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// A source that notes how many elements each reading takes.
pub struct Watched<S> {
    source: S,
    read: Mutex<Vec<u64>>,
}

impl<S: ArraySource> Watched<S> {
    pub fn new(source: S) -> Watched<S> {
        Watched { source, read: Mutex::default() }
    }

    /// How many elements each reading took, the least first.
    pub fn elements_read(&self) -> Vec<u64> {
        let mut read = self.read.lock().expect("no reading panicked").clone();
        read.sort_unstable();
        read
    }
}

impl<S: ArraySource> ArraySource for Watched<S> {
    fn dtype(&self) -> DType {
        self.source.dtype()
    }

    fn shape(&self) -> &[u64] {
        self.source.shape()
    }

    fn describe(&self) -> String {
        self.source.describe()
    }

    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        self.read.lock().expect("no reading panicked").push(volume(piece));
        self.source.read(piece, out)
    }
}

/// `0, 1, 2, ...` of any type but bool.
pub fn counting(dtype: DType, shape: &[u64]) -> Tensor {
    let count = shape.iter().product::<u64>() as i64;
    macro_rules! elements {
        ($rust:ty, $from:expr) => {
            Tensor::from_elements(shape, &(0..count).map($from).collect::<Vec<$rust>>())
        };
    }
    match dtype {
        DType::F64 => elements!(f64, |i| i as f64),
        DType::F32 => elements!(f32, |i| i as f32),
        DType::Bf16 => elements!(half::bf16, |i| half::bf16::from_f32((i % 256) as f32)),
        DType::F16 => elements!(half::f16, |i| half::f16::from_f32((i % 2048) as f32)),
        DType::I64 => elements!(i64, |i| i),
        DType::I32 => elements!(i32, |i| i as i32),
        DType::Bool => Tensor::from_bools(shape, &(0..count).map(|i| i % 3 == 0).collect::<Vec<_>>()),
    }
}
