-- Clusters that two arms can be compared in, and what each value adds to the difference of
-- their means: latency, in millionths of a millisecond.
SELECT role, item, seq, n, of, part FROM difference WHERE kind = 'latency'
