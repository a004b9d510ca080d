mod injections;
mod plans;
