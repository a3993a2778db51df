-- Clusters that two arms can be compared in, and what each value adds to the difference of
-- their means: tokens, in millionths.
SELECT role, item, seq, n, of, part FROM difference WHERE kind = 'tokens'
