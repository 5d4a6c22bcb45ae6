//! What a change of table or policy moves, and how much of it needlessly.
