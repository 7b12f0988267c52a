//! What the speed of planning is measured on, as text: layers of a transformer, long chains, an MLP, and
//! layouts between which a value goes.

use std::fmt::Write;

/// So many layers, like those of a transformer, on a grid of 8 x 8: ten operations each.
pub fn layers(count: usize) -> String {
    let mut program = String::from("  input x: f32[b=8, s=1024, e=512]\n");
    let mut placement = String::from("  x: b/dp, s/tp\n");
    let mut before = "x".to_string();
    for i in 0..count {
        let _ = write!(
            program,
            "  input g{i}: f32[e]
  input q{i}: f32[q=512, e]
  input o{i}: f32[e, q]
  input w{i}: f32[h=2048, e]
  input b{i}: f32[h]
  input v{i}: f32[e, h]
  input c{i}: f32[e]
  norm{i} = rms_norm({before}, g{i}, e)
  scores{i} = linear(norm{i}, q{i})
  weights{i} = softmax(scores{i}, q)
  mixed{i} = linear(weights{i}, o{i})
  mid{i} = add({before}, mixed{i})
  norm_mid{i} = rms_norm(mid{i}, g{i}, e)
  wide{i} = linear(norm_mid{i}, w{i}, b{i})
  active{i} = gelu(wide{i})
  narrow{i} = linear(active{i}, v{i}, c{i})
  out{i} = add(mid{i}, narrow{i})
"
        );
        let _ = write!(
            placement,
            "  w{i}: h/tp\n  b{i}: h/tp\n  v{i}: h/tp\n  narrow{i}: b/dp, s/tp\n  mixed{i}: b/dp, s/tp\n"
        );
        before = format!("out{i}");
    }
    file("mesh grid { dp = 8, tp = 8 }", &program, &before, "grid", &placement)
}

/// So many additions in a row.
pub fn additions(count: usize) -> String {
    let mut program = String::from("  input x: f32[s=64, e=64]\n");
    let mut before = "x".to_string();
    for i in 0..count {
        let _ = writeln!(program, "  y{i} = add({before}, x)");
        before = format!("y{i}");
    }
    file("mesh grid { dp = 8, tp = 8 }", &program, &before, "grid", "  x: s/dp\n")
}

/// So many inputs, added one after another.
pub fn inputs(count: usize) -> String {
    let mut program = String::from("  input x: f32[s=64, e=64]\n");
    let mut before = "x".to_string();
    for i in 0..count {
        let _ = writeln!(program, "  input w{i}: f32[s, e]\n  y{i} = add({before}, w{i})");
        before = format!("y{i}");
    }
    file("mesh grid { dp = 8, tp = 8 }", &program, &before, "grid", "  x: s/dp\n")
}

/// So many inputs, each of which learns its layout from the one before, against the order of the program.
pub fn followers(count: usize) -> String {
    let mut program = String::from("  input w0: f32[s=64, e=64]\n");
    for i in 1..=count {
        let _ = writeln!(program, "  input w{i}: f32[s, e]");
    }
    for i in (0..count).rev() {
        let _ = writeln!(program, "  y{i} = add(w{i}, w{})\n  output y{i}", i + 1);
    }
    let last = format!("w{count}");
    file("mesh grid { dp = 8, tp = 8 }", &program, &last, "grid", "  w0: s/dp\n")
}

/// So many products, each of them in steps.
pub fn streams(count: usize) -> String {
    let mut program = String::from("  input x: f32[s=64, e=64]\n  input w: f32[h=64, e]\n");
    let mut placement = String::from("  x: s/tp\n  w: h/dp\n");
    for i in 0..count {
        let _ = writeln!(program, "  y{i} = linear(x, w)\n  output y{i}");
        let _ = writeln!(placement, "  y{i}: s/stream(4), h/dp");
    }
    file("mesh grid { dp = 8, tp = 8 }", &program, "x", "grid", &placement)
}

/// The MLP with sequence parallelism on so many devices.
pub fn mlp(devices: u64) -> String {
    let program = "  input x: f32[s=40000, e=64]
  input w0: f32[h=40000, e]
  input b0: f32[h]
  input w1: f32[e, h]
  input b1: f32[e]
  y0 = linear(x, w0, b0)
  y1 = gelu(y0)
  y2 = linear(y1, w1, b1)
";
    let placement = "  x: s/tp\n  w0: h/tp\n  b0: h/tp\n  y0: h/tp\n  w1: h/tp\n  y2: s/tp\n";
    file(&format!("mesh line {{ tp = {devices} }}"), program, "y2", "line", placement)
}

/// Layouts of a value `x[p, q, r]` on a mesh of 8 x 8 x 16 devices.
pub const LAYOUTS: [&str; 12] = [
    "replicated",
    "p/a/b/c",
    "p/c/b/a",
    "p/a, q/b, r/c",
    "p/c, q/a, r/b",
    "q/a/c",
    "p/a, partial(b)",
    "partial(a, b, c)",
    "p/a/c, q/b",
    "p/local(4)/a, q/local(2)/b/c",
    "r/b/a, partial(c)",
    "p/a(100, 200, 0, 300, 100, 100, 100, 100), r/c",
];

/// A reshard between two of these layouts.
pub fn reshard(from: &str, to: &str) -> String {
    let program = "  input x: f32[p=1000, q=77, r=514]\n  y = reshard(x)\n";
    let placement = format!("  x: {from}\n  y: {to}\n");
    file("mesh cube { a = 8, b = 8, c = 16 }", program, "y", "cube", &placement)
}

/// Moves between two meshes of 1024 devices each that do not share one.
pub fn between_meshes() -> [String; 3] {
    let devices: Vec<String> = (1024..2048).map(|device| device.to_string()).collect();
    let meshes = format!(
        "mesh cube {{ a = 8, b = 8, c = 16 }}\nmesh far {{ x = 32, y = 32 }} devices [{}]",
        devices.join(", ")
    );
    let program = "  input x: f32[p=1000, q=77, r=514]\n  y = reshard(x)\n";
    let layouts = [
        ("p/a/b/c", "q/x, r/y on far"),
        ("p/a, q/b, r/c", "p/x, r/y on far"),
        ("r/b, partial(a)", "p/x/y on far"),
    ];
    layouts.map(|(from, to)| file(&meshes, program, "y", "cube", &format!("  x: {from}\n  y: {to}\n")))
}

/// Placements of a matrix product on 65,536 devices.
pub fn on_many_devices() -> [String; 5] {
    let program = "  input x: f32[s=262144, e=65536]
  input w: f32[h=262144, e]
  y = linear(x, w)
  z = gelu(y)
";
    let given: Vec<String> = (0..256).map(|n| (1024 + n % 2).to_string()).collect();
    let mut uneven = given.clone();
    uneven[255] = (262_144 - (0..255).map(|n| 1024 + n % 2).sum::<u64>()).to_string();
    [
        "  x: s/a\n  w: h/b\n".to_string(),
        "  x: s/local(4)/a\n  w: h/local(4)/b\n  z: s/a, h/b\n".to_string(),
        "  x: s/a/b\n  w: h/a/b\n  z: s/b/a\n".to_string(),
        format!("  x: s/a({})\n  z: s/a, h/b\n", uneven.join(", ")),
        "  x: e/a/b\n  w: e/a/b\n  y: partial(a, b)\n  z: s/a, h/b\n".to_string(),
    ]
    .map(|placement| file("mesh grid { a = 256, b = 256 }", program, "z", "grid", &placement))
}

fn file(meshes: &str, program: &str, output: &str, home: &str, placement: &str) -> String {
    format!(
        "{meshes}\nprogram p {{\n{program}  output {output}\n}}\nplacement q for p on {home} {{\n{placement}}}\n"
    )
}
