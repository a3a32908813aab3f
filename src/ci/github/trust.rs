//! Which events may run a loop, and from which revision its rules come.
