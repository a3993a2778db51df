-- Clusters that two arms can be compared in, and what each value adds to the difference of
-- their means: cost, in billionths of a dollar.
SELECT role, item, seq, n, of, part FROM difference WHERE kind = 'cost'
