//! `protoc` as far as build scripts need it: compiles schemas into one descriptor set, by protox, so that nobody has to
//! install anything. `protoc [--include_imports] [--include_source_info] -o SET -I FOLDER... FILE...`

use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut folders, mut files, mut set) = (Vec::new(), Vec::new(), None);
    let (mut imports, mut source_info) = (false, false);
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--include_imports" => imports = true,
            "--include_source_info" => source_info = true,
            "-I" => folders.push(args.next().ok_or("-I names no folder")?),
            "-o" => set = args.next(),
            option if option.starts_with('-') => {
                return Err(format!("{option} is an option of protoc's that is not known here").into());
            }
            _ => files.push(arg),
        }
    }
    let mut compiler = protox::Compiler::new(folders)?;
    compiler.include_imports(imports).include_source_info(source_info).open_files(files)?;
    fs::write(
        set.ok_or("no -o: where is the descriptor set to go?")?,
        compiler.encode_file_descriptor_set(),
    )?;
    Ok(())
}
