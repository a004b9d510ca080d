//! Packs the pages' files: browsers take them packed, and the program carries them in a third of their size.

use std::{env, error::Error, fs, io::Write, path::Path};

use flate2::{Compression, GzBuilder};

const FILES: [&str; 4] = ["index.html", "app.js", "app.css", "icon.svg"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    for name in FILES {
        let path = Path::new("assets").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        // Without a name or a time of its own: the same file is packed into the same bytes.
        let packed = fs::File::create(Path::new(&out).join(format!("{name}.gz")))?;
        let mut packed = GzBuilder::new().write(packed, Compression::best());
        packed.write_all(&fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?)?;
        packed.finish()?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
