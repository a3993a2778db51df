-- The terms of docs/metrics.md, from the table "events" of an export that has all
-- records. What is asked for stands in temp.asked and temp.repair. Of several
-- records of one identifier the first counts: with min(seq), SQLite takes the other
-- columns from the row of that seq.

-- ev is every event that can be read. A dispatcher sees what tools really do, and a
-- harness where it stands in for one. What was imported is no live behaviour.
CREATE TEMP VIEW ev AS
SELECT seq, type, namespace || CASE WHEN data ->> '$.context.capture' = 'imported' THEN '~imported' ELSE '' END AS namespace, principal, substr(principal, 1, instr(principal, '/') - 1) AS role,
       principal LIKE 'dispatcher/%' OR principal LIKE 'harness/%' AND (namespace = 'sandbox' OR namespace LIKE 'bench/%') AS observer,
       recorded_at_ns AS at, min(coalesce(time_ns, recorded_at_ns), recorded_at_ns) AS cut_at,
       id AS event, episodeid AS episode, causationid AS cause,
       coalesce(data ->> '$.context.capture', '') = 'imported' AS imported, data
FROM events WHERE unreadable IS NULL;

CREATE TEMP TABLE imported AS SELECT seq FROM ev WHERE imported;
CREATE UNIQUE INDEX temp.imported_seq ON imported(seq);

-- clock is the ledger's time: the latest that the logger wrote.
CREATE TEMP TABLE clock AS SELECT max(at) AS now FROM ev;

-- closed is each week that is over, by the record that says so.
CREATE TEMP TABLE closed AS
SELECT data ->> '$.week' AS week, min(seq) AS seq FROM ev WHERE type = 'week.closed' AND role = 'logger' GROUP BY 1;

-- span is the records [first, past) of the week that is asked for. What closes a week
-- is the first record of a later one. A week that was not closed has no span.
CREATE TEMP TABLE span AS
SELECT 1 AS first, 9223372036854775807 AS past FROM asked WHERE week IS NULL
UNION ALL
SELECT coalesce((SELECT max(b.seq) FROM closed b WHERE b.seq < w.seq), 1), w.seq FROM closed w JOIN asked USING (week);

-- thing is what events bring up, by the first event of its identifier.
CREATE TEMP TABLE thing AS
WITH names(type, kind, path) AS (VALUES
  ('claim.recorded', 'claim', '$.claim_id'), ('prediction.recorded', 'prediction', '$.pred_id'),
  ('opportunity.detected', 'opportunity', '$.opportunity_id'), ('experiment.proposed', 'experiment', '$.exp_id'),
  ('query.selected', 'query', '$.query_id'), ('finding.written', 'finding', '$.finding_id'),
  ('contradiction.detected', 'contradiction', '$.contradiction_id'), ('run.started', 'run', '$.run_id'), ('graph.written', 'edge', '$.edge_id'))
SELECT kind, namespace, data ->> path AS id, min(seq) AS seq, at, event, principal, episode, data
FROM ev JOIN names USING (type)
WHERE CASE kind WHEN 'opportunity' THEN role = 'detector' OR observer WHEN 'finding' THEN role = 'agent' WHEN 'edge' THEN role = 'agent' OR observer
      WHEN 'contradiction' THEN role IN ('agent', 'operator') WHEN 'run' THEN role = 'harness' ELSE 1 END
GROUP BY kind, namespace, id;
-- A belief's challenges are taken from the view, which knows the beliefs.
INSERT INTO thing SELECT 'challenge', namespace, challenge_id, seq, recorded_at_ns, event_id, principal, episode_id, NULL FROM challenges;
CREATE INDEX temp.thing_id ON thing(kind, id);

-- refers says which thing an event refers to, and in which namespace that is: an
-- agent's word is of its own; of all others, where the event was caused by the one
-- that brought the thing up, else where there is only one, else its own. "known" is
-- whether there was such a thing before.
CREATE TEMP TABLE refers AS
WITH names(type, kind, path) AS (VALUES
  ('prediction.armed', 'prediction', '$.pred_id'), ('prediction.resolved', 'prediction', '$.pred_id'),
  ('prediction.resolution_amended', 'prediction', '$.pred_id'), ('fix.rechecked', 'claim', '$.claim_id'),
  ('outcome.recorded', 'claim', '$.claim_id'), ('experiment.executed', 'experiment', '$.exp_id'),
  ('experiment.observed', 'experiment', '$.exp_id'), ('query.executed', 'query', '$.query_id'),
  ('finding.delivered', 'finding', '$.finding_id'), ('finding.withheld', 'finding', '$.finding_id'),
  ('finding.rated', 'finding', '$.finding_id'), ('contradiction.owned', 'contradiction', '$.contradiction_id'),
  ('contradiction.investigated', 'contradiction', '$.contradiction_id'), ('contradiction.resolved', 'contradiction', '$.contradiction_id'),
  ('contradiction.scoped', 'contradiction', '$.contradiction_id'), ('contradiction.unresolved', 'contradiction', '$.contradiction_id'),
  ('run.finished', 'run', '$.run_id'), ('isolation.counted', 'run', '$.run_id'), ('tool.called', 'opportunity', '$.context.opportunity_id'),
  ('graph.written', 'opportunity', '$.context.opportunity_id'), ('claim.recorded', 'opportunity', '$.context.opportunity_id')),
named AS (SELECT ev.*, kind, data ->> path AS id FROM ev JOIN names USING (type) WHERE data ->> path IS NOT NULL),
found AS (
  SELECT n.seq, count(t.id) AS n, max(t.namespace) AS only, max(t.namespace = n.namespace) IS 1 AS has_own,
         min(CASE WHEN t.event = n.cause THEN t.namespace END) AS caused
  FROM named n LEFT JOIN thing t ON t.kind = n.kind AND t.id = n.id AND t.seq < n.seq AND (t.namespace LIKE '%~imported') = n.imported GROUP BY n.seq)
SELECT seq, type, n.namespace AS own, role, observer, principal, at, cut_at, event, episode, imported, kind, id, data,
       CASE WHEN role = 'agent' THEN has_own ELSE caused IS NOT NULL OR f.n = 1 OR has_own END AS known,
       CASE WHEN role = 'agent' THEN n.namespace WHEN caused IS NOT NULL THEN caused WHEN f.n = 1 THEN only ELSE n.namespace END AS namespace
FROM named n JOIN found f USING (seq);

-- ---- Tool calls

-- told is a call by each side that tells of it, by that side's best witness: one call for
-- each episode and id. A record that names no episode is of the call that had the id
-- first. Which message asked for it is what the best witness says who says any. "seen" is
-- the side's first record of it, "placed" the first that names its episode.
CREATE TEMP TABLE told AS
WITH raw AS (
  SELECT seq, namespace, data ->> '$.tool_call_id' AS id, coalesce(episode, '') AS own, observer, at, imported, data,
         CASE WHEN imported THEN 5 WHEN role = 'agent' THEN 4 WHEN data ->> '$.context.capture' = 'hook' THEN 2 WHEN data ->> '$.context.capture' = 'otlp' THEN 3 ELSE 1 END AS rank
  FROM ev WHERE type = 'tool.called' AND (observer OR role = 'agent')),
home AS (SELECT namespace, id, min(seq), own AS episode FROM raw WHERE own <> '' GROUP BY namespace, id),
placed AS (
  SELECT raw.*, CASE own WHEN '' THEN coalesce(home.episode, '') ELSE own END AS episode, own IN ('', home.episode) AS is_first
  FROM raw LEFT JOIN home USING (namespace, id)),
sighting AS (SELECT namespace, id, episode, rank, min(seq), data ->> '$.message_id' AS message FROM placed GROUP BY namespace, id, episode, rank),
named AS (SELECT namespace, id, episode, min(rank), message FROM sighting WHERE message IS NOT NULL GROUP BY namespace, id, episode)
SELECT namespace, id, episode, own, observer, seq, seen, placed, at, is_first, imported, data ->> '$.tool' AS tool, data ->> '$.status' AS status, message, data, rank
FROM (SELECT *, row_number() OVER (side ORDER BY rank, seq) AS place, min(seq) OVER side AS seen, min(CASE WHEN own <> '' THEN seq END) OVER side AS placed
      FROM placed WINDOW side AS (PARTITION BY namespace, id, episode, observer))
LEFT JOIN named USING (namespace, id, episode) WHERE place = 1;
CREATE INDEX temp.told_id ON told(id, namespace);

-- ---- Opportunities, and where they led

CREATE TEMP TABLE opportunity AS
SELECT id, seq, event, episode, data ->> '$.kind' AS kind, data ->> '$.detector_version' AS detector_version
FROM thing WHERE kind = 'opportunity' AND namespace = (SELECT namespace FROM asked);
CREATE INDEX temp.opportunity_id ON opportunity(id);
CREATE INDEX temp.opportunity_episode ON opportunity(episode, seq);
CREATE INDEX temp.opportunity_seq ON opportunity(seq);

-- step is a record that shows where an opportunity led: a call of a causal tool or
-- of the graph that was not denied, as the best observer tells it, a write to the
-- graph, or else prose.
CREATE TEMP TABLE step AS
SELECT seq, namespace, role = 'agent' AS self_reported, episode, imported, data ->> '$.context.opportunity_id' AS names, seq AS seen, seq AS placed,
       CASE type WHEN 'graph.written' THEN 'graph' ELSE 'prose' END AS leads_to
FROM ev WHERE type IN ('graph.written', 'claim.recorded')
UNION ALL
SELECT seq, namespace, 0, own, imported, data ->> '$.context.opportunity_id', seen, placed, CASE WHEN tool GLOB 'graph*' THEN 'graph' ELSE 'causal_tool' END
FROM told
WHERE observer AND status <> 'denied'
  AND (tool GLOB 'graph*' OR tool GLOB 'causal*' OR tool GLOB 'counterfactual*' OR coalesce(json_array_length(data, '$.returned_edges'), 0) > 0);

-- followed joins them: by the opportunity's id, whenever the record came; a record
-- that names none, with the latest opportunity of its episode before it. A call is as
-- old as its first record: what another witness says of it later is of the opportunity
-- that it was of, and of none if it was seen before. Nothing that was imported is a step
-- of anything live.
CREATE TEMP TABLE followed AS
SELECT o.id, s.seq, s.self_reported, s.leads_to, 1 AS exact
FROM step s LEFT JOIN refers r ON r.seq = s.seq AND r.kind = 'opportunity' JOIN opportunity o ON o.id = s.names
WHERE s.names <> '' AND NOT s.imported AND r.namespace = (SELECT namespace FROM asked)
UNION ALL
SELECT o.id, s.seq, s.self_reported, s.leads_to, 0
FROM step s JOIN opportunity o ON o.seq = (SELECT max(l.seq) FROM opportunity l WHERE l.episode = s.episode AND l.seq < s.placed)
WHERE coalesce(s.names, '') = '' AND s.episode <> '' AND o.seq < s.seen AND NOT s.imported AND s.namespace = (SELECT namespace FROM asked);
CREATE INDEX temp.followed_id ON followed(id);

-- route is the one of them that counts: a tool before the graph before prose, of
-- equals a record that names the opportunity before one that merely came after it, what
-- was observed before an agent's word, the earlier before the later.
CREATE TEMP TABLE route AS
SELECT id, seq, leads_to, exact FROM (
  SELECT *, row_number() OVER (PARTITION BY id ORDER BY
         CASE leads_to WHEN 'causal_tool' THEN 1 WHEN 'graph' THEN 2 ELSE 3 END, exact DESC, self_reported, seq) AS place
  FROM followed) WHERE place = 1;

-- incident is an episode with an opportunity that calls for a cause or a fix, by the
-- first that was not imported.
CREATE TEMP TABLE incident AS
SELECT episode, min(seq) AS seq FROM opportunity
WHERE kind IN ('root_cause', 'which_fix') AND episode <> '' AND seq NOT IN imported GROUP BY episode;

-- call is a call of the namespace by its best witness: an observer, else the agent.
CREATE TEMP TABLE call AS
SELECT t.*, tool NOT GLOB 'graph*' AND (tool GLOB 'causal*' OR tool GLOB 'counterfactual*' OR coalesce(json_array_length(data, '$.returned_edges'), 0) > 0) AS causal,
       CAST(round(coalesce(data ->> '$.latency_ms', data ->> '$.context.cost.latency_ms') * 1000) AS INTEGER) AS latency_us
FROM told t
WHERE namespace = (SELECT namespace FROM asked)
  AND (observer OR NOT EXISTS (SELECT 1 FROM told o WHERE o.id = t.id AND o.namespace = t.namespace AND o.episode = t.episode AND o.observer));

-- ---- Usage and prices

-- used is everything that counts as usage: what usage.recorded tells, once a message,
-- else once a call, else by itself, by the best witness; and the calls that none of it
-- tells of, of those that one message asked for the one with the best witness.
CREATE TEMP TABLE used AS
WITH recorded AS (
  SELECT seq, CASE WHEN data ->> '$.message_id' IS NOT NULL THEN 'message' WHEN data ->> '$.context.tool_call_id' IS NOT NULL THEN 'call' ELSE 'record' END AS by,
         coalesce(data ->> '$.message_id', data ->> '$.context.tool_call_id', seq) AS id, at, coalesce(episode, '') AS own, data,
         CASE data ->> '$.context.capture' WHEN 'hook' THEN 2 WHEN 'otlp' THEN 3 ELSE 1 END AS rank
  FROM ev WHERE type = 'usage.recorded' AND role IN ('dispatcher', 'harness') AND namespace = (SELECT namespace FROM asked)),
home AS (SELECT id, min(seq), own AS episode FROM recorded WHERE by = 'call' AND own <> '' GROUP BY id),
placed AS (
  SELECT r.*, CASE WHEN by = 'call' AND own = '' THEN coalesce(home.episode, '') ELSE own END AS episode FROM recorded r LEFT JOIN home USING (id)),
told_of AS (
  SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY by, id, CASE by WHEN 'call' THEN episode END ORDER BY rank, seq) AS place FROM placed) WHERE place = 1),
untold AS (
  SELECT *, row_number() OVER (PARTITION BY coalesce(message, seq), message IS NULL ORDER BY rank, seq) AS place FROM call)
SELECT seq, CASE by WHEN 'message' THEN id ELSE 'record ' || seq END AS item, at, episode, data, 0 AS is_call,
       data ->> '$.model' AS model, data ->> '$.model_version' AS model_version, data ->> '$.provider' AS provider, data ->> '$.ended_at' AS ended_at
FROM told_of
UNION ALL
SELECT seq, id, at, episode, data, 1, NULL, NULL, NULL, NULL FROM untold u
WHERE place = 1 AND NOT EXISTS (
  SELECT 1 FROM told_of t WHERE t.by = 'message' AND t.id = u.message OR t.by = 'call' AND t.id = u.id AND (t.episode IN ('', u.episode) OR u.episode = ''));

-- spent has their tokens, with input that includes the cached ones and input that
-- does not made the same. Nothing cached, and both are.
CREATE TEMP TABLE spent AS
WITH raw AS (
  SELECT *, coalesce(data ->> '$.tokens.input', data ->> '$.context.cost.input_tokens') AS input,
         coalesce(data ->> '$.tokens.cached', data ->> '$.context.cost.cached_tokens') AS cached,
         coalesce(data ->> '$.tokens.output', data ->> '$.context.cost.output_tokens') AS output,
         CAST(round(coalesce(data ->> '$.cost_usd', data ->> '$.context.cost.cost_usd') * 1e9) AS INTEGER) AS charged,
         CAST(round(coalesce(data ->> '$.latency_ms', data ->> '$.context.cost.latency_ms') * 1000) AS INTEGER) AS latency_us,
         data ->> '$.usage_convention' AS convention,
         -- the date of the price: when it ended, to the nanosecond, else when it was recorded
         coalesce(unixepoch(ended_at) * 1000000000 + CASE WHEN substr(ended_at, 20, 1) = '.'
           THEN CAST(substr(rtrim(substr(ended_at, 21), 'Zz') || '000000000', 1, 9) AS INTEGER) ELSE 0 END, at) AS priced_at
  FROM used)
SELECT seq, item, episode, priced_at, is_call, data, model, model_version, provider, charged, latency_us, cached, output,
       CASE WHEN convention = 'input_excludes_cached' THEN input + cached
            WHEN convention = 'input_includes_cached' AND coalesce(cached, 0) <= input THEN input
            WHEN convention IS NULL AND cached = 0 THEN input END AS input,
       CASE WHEN convention = 'input_excludes_cached' THEN input
            WHEN (convention = 'input_includes_cached' OR convention IS NULL AND cached = 0) AND cached <= input THEN input - cached END AS uncached
FROM raw;

-- price is the list of prices, by the first record of each id. It has no namespace, and
-- no cost is reckoned by an import.
CREATE TEMP TABLE price AS
WITH first AS (SELECT data ->> '$.price_id' AS id, min(seq) AS seq, data FROM ev WHERE type = 'price.recorded' AND role = 'operator' AND NOT imported GROUP BY 1)
SELECT f.seq, p.from_ns AS begins, p.to_ns AS ends, f.data ->> '$.model' AS model, f.data ->> '$.model_version' AS model_version, f.data ->> '$.provider' AS provider,
       CAST(round(f.data ->> '$.input_usd_per_mtok' * 1e9) AS INTEGER) AS input,
       CAST(round(f.data ->> '$.cached_usd_per_mtok' * 1e9) AS INTEGER) AS cached,
       CAST(round(f.data ->> '$.output_usd_per_mtok' * 1e9) AS INTEGER) AS output
FROM first f JOIN prices p USING (seq);

-- costs is what each usage cost in billionths of a dollar, at the price of its date:
-- one for the version before one for the provider before one for the model, of each
-- the latest that had begun, unless it had ended. NULL where any part is not known.
CREATE TEMP TABLE costs AS
WITH begun AS (
  SELECT s.seq, p.seq AS price, p.ends, s.priced_at,
         row_number() OVER (PARTITION BY s.seq, p.model_version IS NULL, p.provider IS NULL ORDER BY p.begins DESC, p.seq DESC) AS place,
         (p.model_version IS NULL) * 2 + (p.provider IS NULL) AS rank
  FROM spent s JOIN price p ON p.model = s.model AND p.begins <= s.priced_at
   AND (p.model_version IS NULL OR p.model_version = s.model_version) AND (p.provider IS NULL OR p.provider = s.provider)),
chosen AS (SELECT seq, price, min(rank) FROM begun WHERE place = 1 AND (ends IS NULL OR priced_at < ends) GROUP BY seq)
SELECT s.*,
       CASE s.uncached WHEN 0 THEN 0 ELSE (s.uncached * p.input + 500000) / 1000000 END
       + CASE s.cached WHEN 0 THEN 0 ELSE (s.cached * p.cached + 500000) / 1000000 END
       + CASE s.output WHEN 0 THEN 0 ELSE (s.output * p.output + 500000) / 1000000 END AS nano_usd,
       p.seq IS NOT NULL AS priced
FROM spent s LEFT JOIN chosen c USING (seq) LEFT JOIN price p ON p.seq = c.price;
UPDATE costs SET nano_usd = NULL WHERE NOT priced;

-- ---- Predictions and their verdicts

CREATE TEMP TABLE prediction AS
SELECT id, seq, at, event, episode, data ->> '$.claim_id' AS claim, data ->> '$.p' AS p
FROM thing WHERE kind = 'prediction' AND namespace = (SELECT namespace FROM asked);
CREATE INDEX temp.prediction_id ON prediction(id);

-- ruling is the resolver's word on a prediction, in the chain in which each names the
-- one that it supersedes: the first resolution, and the amendments within seven days of
-- it, by the resolver's cuts.
CREATE TEMP TABLE resolved AS
SELECT id, min(seq) AS seq, event, cut_at FROM refers
WHERE type = 'prediction.resolved' AND role = 'resolver' AND known AND namespace = (SELECT namespace FROM asked) GROUP BY id;
CREATE INDEX temp.resolved_id ON resolved(id);

CREATE TEMP TABLE amended AS
SELECT r.id, r.seq, r.event, r.data ->> '$.supersedes' AS supersedes FROM refers r JOIN resolved o USING (id)
WHERE r.type = 'prediction.resolution_amended' AND r.role = 'resolver' AND r.known AND r.namespace = (SELECT namespace FROM asked)
  AND r.seq > o.seq AND r.cut_at <= o.cut_at + 7 * 86400 * 1000000000;
CREATE INDEX temp.amended_id ON amended(id, supersedes, seq);

CREATE TEMP TABLE ruling AS
WITH RECURSIVE chain(id, seq, event) AS (
  SELECT id, seq, event FROM resolved
  UNION ALL
  SELECT c.id, a.seq, a.event FROM chain c JOIN amended a
  ON a.seq = (SELECT min(n.seq) FROM amended n WHERE n.id = c.id AND n.seq > c.seq AND n.supersedes = c.event))
SELECT c.id, c.seq, r.type, r.data ->> '$.verdict' AS verdict, r.data ->> '$.scorable' AS scorable, coalesce(r.data ->> '$.cause', '') AS cause,
       r.data ->> '$.resolver.kind' IN ('operator', 'sandbox') AS reported, r.imported,
       CASE WHEN r.data ->> '$.cut_seq' BETWEEN 1 AND c.seq THEN r.data ->> '$.cut_seq' ELSE c.seq END AS known_at
FROM chain c JOIN refers r ON r.seq = c.seq;
CREATE INDEX temp.ruling_id ON ruling(id);

-- verdict is what a prediction is scored by: the latest amendment because of telemetry,
-- else the resolution; what another engine or somebody who reported says is none.
-- "by" is the record that brought it: the resolution, or the amendment that changed it.
-- A scorable one was promised before its window opened, as far as that is known.
CREATE TEMP TABLE verdict AS
WITH opened AS (
  SELECT a.id, min(a.seq) AS seq, a.data ->> '$.window_open' AS window_open FROM refers a
  WHERE a.type = 'prediction.armed' AND a.role = 'resolver' AND a.known AND a.namespace = (SELECT namespace FROM asked)
    AND NOT EXISTS (SELECT 1 FROM ruling r WHERE r.id = a.id AND r.type = 'prediction.resolved' AND r.seq < a.seq) GROUP BY a.id),
final AS (
  SELECT id, max(seq) AS seq FROM ruling WHERE NOT imported AND cause NOT IN ('engine', 'operator_report') GROUP BY id)
SELECT p.id, p.seq AS predicted, p.at, p.claim, p.p, f.verdict, f.reported,
       f.verdict IN ('confirmed', 'refuted') AND NOT f.reported AS decided,
       f.scorable AND coalesce(p.at < unixepoch(o.window_open) * 1000000000 + CASE WHEN substr(o.window_open, 20, 1) = '.'
         THEN CAST(substr(rtrim(substr(o.window_open, 21), 'Zz') || '000000000', 1, 9) AS INTEGER) ELSE 0 END, 1) AS scored,
       CASE WHEN r.verdict = f.verdict AND NOT r.reported THEN r.seq ELSE f.seq END AS by,
       CASE WHEN r.verdict = f.verdict AND NOT r.reported THEN r.known_at ELSE f.known_at END AS known_at
FROM prediction p
LEFT JOIN ruling r ON r.id = p.id AND r.type = 'prediction.resolved' AND NOT r.imported
LEFT JOIN final ON final.id = p.id AND r.id IS NOT NULL
LEFT JOIN ruling f ON f.seq = final.seq
LEFT JOIN opened o ON o.id = p.id;

-- ---- Claims, and what independent sources said of them

CREATE TEMP TABLE claim AS
SELECT id, seq, at, event, principal, episode, data ->> '$.status' AS status, data ->> '$.edge.rung' AS rung, data -> '$.edge' IS NOT NULL AS is_edge,
       data ->> '$.context.opportunity_id' AS opportunity, data
FROM thing WHERE kind = 'claim' AND namespace = (SELECT namespace FROM asked);
CREATE INDEX temp.claim_id ON claim(id);

-- standing is each status that a claim has had, from the record that brought it on. A
-- revision that does not start from the present one has no effect.
CREATE TEMP TABLE revised AS
SELECT data ->> '$.claim_id' AS id, seq, data ->> '$.old_status' AS was, data ->> '$.new_status' AS status
FROM ev WHERE type = 'claim.revised' AND namespace = (SELECT namespace FROM asked);
CREATE INDEX temp.revised_id ON revised(id, was, seq);

CREATE TEMP TABLE standing AS
WITH RECURSIVE chain(id, seq, status) AS (
  SELECT id, seq, status FROM claim
  UNION ALL
  SELECT c.id, r.seq, r.status FROM chain c JOIN revised r
  ON r.seq = (SELECT min(n.seq) FROM revised n WHERE n.id = c.id AND n.seq > c.seq AND n.was = c.status))
SELECT * FROM chain;
CREATE INDEX temp.standing_id ON standing(id, seq);

-- said is each word on a claim by another than its author: the verdicts of the
-- predictions made on it, and the rechecks that somebody saw directly and that were
-- conclusive. Nothing that was imported says anything.
CREATE TEMP TABLE said AS
SELECT v.claim AS id, v.by AS seq, v.known_at, 'prediction' AS source, v.verdict = 'confirmed' AS holds, v.scored
FROM verdict v JOIN claim c ON c.id = v.claim AND c.seq < v.predicted
WHERE v.decided AND v.predicted NOT IN imported
UNION ALL
SELECT r.id, r.seq, r.seq, 'recheck', r.data ->> '$.result' = 'confirmed', 1
FROM refers r JOIN claim c ON c.id = r.id
WHERE r.type = 'fix.rechecked' AND r.known AND r.namespace = (SELECT namespace FROM asked) AND r.role IN ('resolver', 'operator') AND NOT r.imported
  AND r.data ->> '$.direct' AND r.data ->> '$.result' <> 'inconclusive' AND r.principal <> c.principal;

CREATE INDEX temp.said_id ON said(id);

-- past is the first record by which a claim was settled, confirmed, refuted.
CREATE TEMP TABLE past AS
WITH rechecked AS (SELECT id, max(seq) AS seq FROM said WHERE source = 'recheck' GROUP BY id)
SELECT c.id, c.seq AS claimed,
       (SELECT min(s.seq) FROM said s WHERE s.id = c.id AND s.source = 'prediction') AS settled,
       (SELECT min(s.seq) FROM said s WHERE s.id = c.id AND s.holds AND s.scored) AS confirmed,
       (SELECT min(s.seq) FROM said s LEFT JOIN rechecked r ON r.seq = s.seq
        WHERE s.id = c.id AND NOT s.holds AND (s.source = 'prediction' OR r.seq IS NOT NULL)) AS refuted
FROM claim c;

-- useful is each claim that was confirmed, was asserted just before that was decided,
-- and that nothing refuted.
CREATE TEMP TABLE useful AS
SELECT p.id, p.confirmed AS seq
FROM past p JOIN said s ON s.id = p.id AND s.seq = p.confirmed AND s.holds AND s.scored
WHERE p.refuted IS NULL AND p.claimed NOT IN imported
  AND (SELECT t.status FROM standing t WHERE t.id = p.id AND t.seq < s.known_at ORDER BY t.seq DESC LIMIT 1) = 'asserted'
GROUP BY p.id;

-- delivered is each piece of evidence that was put before anybody, by any but an
-- agent.
CREATE TEMP TABLE delivered AS
SELECT id, min(seq) AS seq FROM (
  SELECT data ->> '$.evidence_id' AS id, seq FROM ev WHERE type = 'evidence.delivered' AND observer AND namespace = (SELECT namespace FROM asked)
  UNION ALL SELECT data ->> '$.tool_call_id', seq FROM ev WHERE type = 'tool.called' AND observer AND namespace = (SELECT namespace FROM asked)
  UNION ALL SELECT e.value, ev.seq FROM ev, json_each(data, '$.evidence_ids') e WHERE ev.type = 'experiment.observed' AND namespace = (SELECT namespace FROM asked)
  UNION ALL SELECT e.value, ev.seq FROM ev, json_each(data, '$.evidence_ids') e
    WHERE ev.type = 'outcome.recorded' AND role IN ('resolver', 'operator') AND data ->> '$.claim_id' IS NULL AND namespace = (SELECT namespace FROM asked)
  UNION ALL SELECT e.value, r.seq FROM refers r, json_each(r.data, '$.evidence_ids') e
    WHERE r.type IN ('fix.rechecked', 'outcome.recorded') AND role IN ('resolver', 'operator') AND namespace = (SELECT namespace FROM asked)) GROUP BY id;
CREATE INDEX temp.delivered_id ON delivered(id);

-- held is a set of alternatives that the agent held possible.
CREATE TEMP TABLE held AS
SELECT data ->> '$.set_id' AS id, min(seq) AS seq, episode, data ->> '$.claim_id' AS claim, data ->> '$.question_id' AS question,
       json_array_length(data, '$.alternatives') AS n, data
FROM ev WHERE type = 'hypotheses.recorded' AND namespace = (SELECT namespace FROM asked) GROUP BY 1;

-- ---- Experiments and queries

-- carried_out is each intention that was executed after it was recorded, with the call
-- that its first execution names, of its episode: one that the dispatcher saw and did not
-- deny.
CREATE TEMP TABLE carried_out AS
WITH executed AS (
  SELECT kind, id, min(seq) AS seq, own, coalesce(episode, '') AS episode, imported, data ->> '$.tool_call_id' AS call FROM refers
  WHERE type IN ('experiment.executed', 'query.executed') AND observer AND namespace = (SELECT namespace FROM asked) GROUP BY kind, id)
SELECT t.kind, t.id, t.seq AS intended, x.seq
FROM thing t JOIN executed x USING (kind, id)
JOIN told c ON c.id = x.call AND c.namespace = x.own AND c.observer AND c.status <> 'denied' AND (c.episode IN ('', x.episode) OR x.episode = '' AND c.is_first)
WHERE t.namespace = (SELECT namespace FROM asked) AND t.seq < x.seq AND NOT x.imported;

-- ---- Labels

-- sample is the first of a week that was over, a namespace and a set, and drawn what it
-- drew.
CREATE TEMP TABLE sample AS
SELECT min(e.seq) AS seq, data ->> '$.namespace' AS namespace, data ->> '$.set' AS name, data FROM ev e JOIN closed c ON c.week = data ->> '$.week' AND c.seq < e.seq
WHERE type = 'audit.sampled' AND role = 'operator' AND NOT imported GROUP BY c.week, data ->> '$.namespace', data ->> '$.set';
CREATE TEMP TABLE drawn AS
SELECT s.seq AS sample, c.value ->> '$.kind' AS kind, c.value ->> '$.id' AS id FROM sample s, json_each(s.data, '$.strata') st, json_each(st.value, '$.cases') c;
CREATE INDEX temp.drawn_sample ON drawn(sample, id);

-- words is a rater's first word on one thing under one rubric, where the thing is: by
-- the sample that drew it, else where it was recorded. Of what nobody recorded, or
-- several namespaces did, it is not known what was labelled.
CREATE TEMP TABLE words AS
WITH first AS (
  SELECT data ->> '$.kind' AS kind, data ->> '$.id' AS id, data ->> '$.rubric_version' AS rubric, data ->> '$.rater' AS rater, type, namespace AS own, min(seq) AS seq,
         imported, principal, cause, data
  FROM ev WHERE type IN ('opportunity.labelled', 'audit.labelled') AND role = 'operator' GROUP BY 1, 2, 3, 4, 5, 6),
placed AS (
  SELECT f.*, s.namespace AS drawn_in, count(t.id) AS n, max(t.namespace) AS any, max(t.namespace = f.own) AS has_own, min(CASE WHEN t.event = f.cause THEN t.namespace END) AS caused
  FROM first f LEFT JOIN sample s ON s.seq = f.data ->> '$.sample_seq' LEFT JOIN thing t ON t.kind = f.kind AND t.id = f.id AND (t.namespace LIKE '%~imported') = f.imported GROUP BY f.seq)
SELECT kind, id, rubric, rater, type, seq, principal, data,
       CASE WHEN drawn_in IS NOT NULL THEN drawn_in WHEN kind = 'turn' THEN own WHEN caused IS NOT NULL THEN caused WHEN n = 1 THEN any ELSE own END AS namespace,
       drawn_in IS NOT NULL OR kind = 'turn' OR caused IS NOT NULL OR n = 1 OR has_own IS 1 AS known
FROM placed WHERE NOT imported;
-- latest is each of them under the latest rubric of the thing: the one whose first label
-- came last.
CREATE TEMP TABLE latest AS
WITH rubrics AS (SELECT namespace, kind, id, rubric, row_number() OVER (PARTITION BY namespace, kind, id ORDER BY min(seq) DESC) AS place FROM words GROUP BY namespace, kind, id, rubric)
SELECT w.* FROM words w JOIN rubrics r USING (namespace, kind, id, rubric) WHERE place = 1;

CREATE TEMP TABLE label AS SELECT * FROM words WHERE namespace = (SELECT namespace FROM asked);

-- answer is what the raters say of a thing on one question, under the latest rubric.
-- NULL where they differ. seq is the first label
-- that answers. Of the detector's verdict only those say anything who did not see it.
CREATE TEMP TABLE answer AS
WITH questions(question, path) AS (VALUES
  ('eligible', '$.eligible'), ('abduction_warranted', '$.abduction_warranted'), ('revision_required', '$.revision_required'),
  ('revision_correct', '$.revision_correct'), ('commitment_supported', '$.commitment_supported'))
SELECT kind, id, question, min(seq) AS seq, CASE WHEN min(data ->> path) = max(data ->> path) THEN min(data ->> path) END AS says
FROM latest JOIN questions
WHERE namespace = (SELECT namespace FROM asked) AND known AND data ->> path IS NOT NULL AND (question <> 'eligible' OR data ->> '$.blind') GROUP BY kind, id, question;

-- labelled is an answer with the record of what was labelled; a turn has none.
CREATE TEMP TABLE labelled AS
SELECT a.*, t.seq AS thing, t.episode FROM answer a
LEFT JOIN thing t ON t.kind = a.kind AND t.id = a.id AND t.namespace = (SELECT namespace FROM asked)
WHERE t.seq IS NULL OR t.seq NOT IN imported;

-- judged is each edge of which two blind raters, whom a sample asked, say whether it is a
-- causal claim and do not differ.
CREATE TEMP TABLE judged AS
SELECT l.namespace, l.id, min(l.seq) AS seq, min(l.data ->> '$.edge.relation_kind' = 'causal_claim') AS is_causal
FROM latest l JOIN drawn d ON d.sample = l.data ->> '$.sample_seq' AND d.kind = l.kind AND d.id = l.id
WHERE l.kind = 'edge' AND l.data ->> '$.blind' AND l.data ->> '$.edge.relation_kind' IS NOT NULL
GROUP BY l.namespace, l.id
HAVING count(DISTINCT l.rater) > 1 AND min(l.data ->> '$.edge.relation_kind' = 'causal_claim') = max(l.data ->> '$.edge.relation_kind' = 'causal_claim');

-- census is the latest sample of a namespace's edges of which 20 are judged, without such
-- a one the latest.
CREATE TEMP TABLE census AS
WITH sampled AS (
  SELECT s.seq AS sample, s.namespace, count(j.id) AS judged, count(*) FILTER (WHERE NOT j.is_causal) AS other
  FROM sample s LEFT JOIN drawn d ON d.sample = s.seq LEFT JOIN judged j ON j.namespace = s.namespace AND j.id = d.id
  WHERE s.name = 'edges' GROUP BY s.seq)
SELECT sample, namespace, judged, other FROM (
  SELECT *, row_number() OVER (PARTITION BY namespace ORDER BY judged >= 20 DESC, sample DESC) AS place FROM sampled) WHERE place = 1;

-- withheld names the metrics without a value: the census itself before it is far enough,
-- and what takes edges for causes where over a fifth of them are something else. A bench
-- is run against the graph of production.
CREATE TEMP TABLE withheld AS
SELECT 'graph_validity' AS metric FROM asked WHERE namespace NOT IN (SELECT namespace FROM census WHERE judged >= 20)
UNION ALL
SELECT 'causal_recall' FROM asked WHERE CASE WHEN namespace = 'sandbox' OR namespace GLOB 'bench/*' THEN 'production' ELSE namespace END IN (
  SELECT namespace FROM census WHERE judged >= 20 AND other > judged * 0.2);

-- sifted is what the detector looked at and somebody labelled: detected opportunities,
-- and turns that a scan names as negative. Each stands for as many as there are for
-- each labelled one, in millionths.
CREATE TEMP TABLE sifted AS
WITH scan AS (
  SELECT seq, data FROM ev
  WHERE type = 'detector.scanned' AND role = 'detector' AND namespace = (SELECT namespace FROM asked) AND NOT imported
    AND seq >= (SELECT first FROM span) AND seq < (SELECT past FROM span)
    AND data ->> '$.positive' + data ->> '$.negative' <= data ->> '$.turns'
    AND coalesce(json_array_length(data, '$.negative_turn_ids'), 0) <= data ->> '$.negative'),
looked AS (
  SELECT a.id, a.seq AS by, a.says, o.seq, 1 AS found FROM answer a JOIN opportunity o USING (id) WHERE a.kind = 'opportunity' AND a.question = 'eligible'
  UNION ALL
  SELECT a.id, a.seq, a.says, n.seq, 0 FROM answer a JOIN (SELECT e.value AS id, min(scan.seq) AS seq FROM scan, json_each(data, '$.negative_turn_ids') e GROUP BY 1) n USING (id)
  WHERE a.kind = 'turn' AND a.question = 'eligible'),
counted AS (
  SELECT * FROM looked WHERE says IS NOT NULL AND seq NOT IN imported AND seq >= (SELECT first FROM span) AND seq < (SELECT past FROM span)),
many(found, n) AS (
  SELECT 1, count(*) FROM opportunity WHERE seq NOT IN imported AND seq >= (SELECT first FROM span) AND seq < (SELECT past FROM span)
  UNION ALL SELECT 0, coalesce(sum(data ->> '$.negative'), 0) FROM scan)
SELECT c.id, c.by, c.says, c.seq, c.found, CAST(round(many.n * 1000000.0 / count(*) OVER (PARTITION BY c.found)) AS INTEGER) AS weight
FROM counted c JOIN many USING (found);

CREATE TEMP TABLE abduction AS
SELECT data ->> '$.abduction_id' AS id, min(seq) AS seq, episode, data ->> '$.question_id' AS question, data ->> '$.context.opportunity_id' AS opportunity
FROM ev WHERE type = 'abduction.started' AND role = 'agent' AND namespace = (SELECT namespace FROM asked) GROUP BY 1;

-- ---- Contradictions

-- conflict is a detected contradiction. A pair is the same whichever side it is seen from.
CREATE TEMP TABLE conflict AS
WITH sides AS (
  SELECT id, seq, at, principal, data, data ->> '$.left.id' AS left_id, data ->> '$.right.id' AS right_id,
         json_array(data ->> '$.left.kind', data ->> '$.left.id', data ->> '$.left.version', data ->> '$.left.content_sha256') AS one,
         json_array(data ->> '$.right.kind', data ->> '$.right.id', data ->> '$.right.version', data ->> '$.right.content_sha256') AS other
  FROM thing WHERE kind = 'contradiction' AND namespace = (SELECT namespace FROM asked))
SELECT id, seq, at, principal, left_id, right_id,
       json_array(min(one, other), max(one, other), data ->> '$.variable', data ->> '$.scope', data ->> '$.valid_time') AS pair
FROM sides;
CREATE INDEX temp.conflict_pair ON conflict(pair, seq);

-- handled is every later record about one: what was made of it, or that it was detected
-- again. "says" is how it was closed, NULL if that left it open.
CREATE TEMP TABLE handled AS
SELECT c.id, h.seq, h.at, h.principal, h.role, h.state, h.data,
       CASE WHEN h.state IN ('resolved', 'scoped') THEN json_array(h.state, h.data ->> '$.resolution', h.data ->> '$.left_scope', h.data ->> '$.right_scope') END AS says,
       (h.state IN ('resolved', 'scoped') OR h.state = 'unresolved' AND h.data ->> '$.cause' <> 'expired') AND EXISTS (
         SELECT 1 FROM json_each(h.data, '$.evidence_ids') e LEFT JOIN delivered d ON d.id = e.value AND d.seq < h.seq
         WHERE e.value NOT IN (c.left_id, c.right_id) AND (d.id IS NOT NULL OR h.role = 'operator')) AS verified
FROM conflict c JOIN (
  SELECT id, seq, at, principal, role, substr(type, length('contradiction.') + 1) AS state, data FROM refers
  WHERE kind = 'contradiction' AND known AND role IN ('agent', 'operator') AND namespace = (SELECT namespace FROM asked)
  UNION ALL
  SELECT data ->> '$.contradiction_id', seq, at, principal, role, 'detected', data FROM ev
  WHERE type = 'contradiction.detected' AND role IN ('agent', 'operator') AND namespace = (SELECT namespace FROM asked)) h
ON h.id = c.id AND h.seq > c.seq;
CREATE INDEX temp.handled_id ON handled(id, seq);

-- turn is each of them that can open or close: to look into what is closed does not.
CREATE TEMP TABLE turn AS
SELECT *, lead(seq) OVER moves AS next, lead(says) OVER moves AS next_says FROM handled WHERE state <> 'investigated' WINDOW moves AS (PARTITION BY id ORDER BY seq);
CREATE INDEX temp.turn_id ON turn(id, seq);
-- Of what is open a further detection is none.
DELETE FROM handled WHERE state = 'detected' AND (SELECT t.says FROM turn t WHERE t.id = handled.id AND t.seq < handled.seq ORDER BY t.seq DESC LIMIT 1) IS NULL;

-- again is a pair that was detected under another id: a duplicate while the last one was
-- open, else what opens it again.
CREATE TEMP TABLE again AS
SELECT c.id, c.seq, b.id AS before,
       (SELECT t.says IS NOT NULL FROM turn t WHERE t.id = b.id AND t.seq < c.seq ORDER BY t.seq DESC LIMIT 1) IS 1 AS was_closed,
       (SELECT max(t.seq) FROM turn t WHERE t.id = b.id AND t.seq < c.seq) AS closing
FROM conflict c JOIN conflict b ON b.pair = c.pair AND b.seq = (SELECT max(e.seq) FROM conflict e WHERE e.pair = c.pair AND e.seq < c.seq);
CREATE TEMP TABLE duplicate AS SELECT id FROM again WHERE NOT was_closed;

-- closing is each time that one was resolved or scoped. It was false without evidence, or
-- if it did not last: it was opened again, closed otherwise, or the pair came again.
CREATE TEMP TABLE closing AS
SELECT id, seq, NOT verified OR next IS NOT NULL AND next_says IS NOT says OR seq IN (SELECT closing FROM again WHERE was_closed) AS failed
FROM turn WHERE says IS NOT NULL;

-- stands is where each one stands now: closed since it was first closed as it is; else by
-- the latest record about it.
CREATE TEMP TABLE stands AS
WITH last AS (SELECT id, max(seq) AS seq, says FROM turn GROUP BY id),
closed AS (
  SELECT l.id, min(t.seq) AS seq FROM last l JOIN turn t ON t.id = l.id
  WHERE l.says IS NOT NULL AND t.seq > coalesce((SELECT max(o.seq) FROM turn o WHERE o.id = l.id AND o.says IS NOT l.says), 0) GROUP BY l.id),
open AS (SELECT id, max(seq) AS seq FROM handled GROUP BY id),
revisit AS ( -- taking it on can set a date; leaving it open sets another, or none
  SELECT h.id, max(h.seq) AS seq, h.data ->> '$.revisit_by' AS by FROM handled h
  WHERE h.state = 'unresolved' OR h.state = 'owned' AND h.data ->> '$.revisit_by' IS NOT NULL GROUP BY h.id)
SELECT c.id, closed.seq IS NULL AS open, coalesce(h.state, 'detected') AS state, coalesce(h.seq, c.seq) AS seq,
       closed.seq IS NULL AND unixepoch(r.by) * 1000000000 <= (SELECT now FROM clock) AS expired
FROM conflict c LEFT JOIN closed USING (id) LEFT JOIN open USING (id) LEFT JOIN revisit r USING (id) LEFT JOIN handled h ON h.id = c.id AND h.seq = coalesce(closed.seq, open.seq);

-- genuine is what raters say who neither detected it nor made a step about it: of any
-- rubric, and one who differs is enough for not knowing.
CREATE TEMP TABLE genuine AS
SELECT c.id, min(l.data ->> '$.contradiction_valid') AS is_valid FROM conflict c JOIN label l ON l.kind = 'contradiction' AND l.id = c.id
WHERE l.known AND l.data ->> '$.contradiction_valid' IS NOT NULL AND l.principal <> c.principal
  AND l.principal NOT IN (SELECT h.principal FROM handled h WHERE h.id = c.id)
GROUP BY c.id HAVING min(l.data ->> '$.contradiction_valid') = max(l.data ->> '$.contradiction_valid');

-- ---- Findings

CREATE TEMP TABLE rating AS
SELECT id, min(seq) AS seq, data ->> '$.rating' AS rating FROM refers
WHERE type = 'finding.rated' AND role IN ('operator', 'agent') AND namespace = (SELECT namespace FROM asked)
GROUP BY id, principal, data ->> '$.rater', data ->> '$.injection_id';

-- quarantined is a finding from its second harmful rating on.
CREATE TEMP TABLE quarantined AS
SELECT id, seq FROM (SELECT id, seq, row_number() OVER (PARTITION BY id ORDER BY seq) AS n FROM rating WHERE rating = 'harmful') WHERE n = 2;

CREATE TEMP TABLE delivery AS
SELECT id, min(seq) AS seq, data ->> '$.tokens' AS tokens FROM refers
WHERE type = 'finding.delivered' AND observer AND namespace = (SELECT namespace FROM asked) GROUP BY data ->> '$.injection_id', id;

CREATE TEMP TABLE finding AS
SELECT id, seq, data ->> '$.claim_sha256' AS claim FROM thing WHERE kind = 'finding' AND namespace = (SELECT namespace FROM asked);

-- ---- Runs

-- bench is each namespace whose runs are counted: of a bench its own, of any other
-- namespace those of every bench.
CREATE TEMP TABLE bench AS
WITH every AS (SELECT DISTINCT namespace FROM events WHERE namespace = 'sandbox' OR namespace GLOB 'bench/*')
SELECT namespace FROM every WHERE namespace = (SELECT namespace FROM asked) OR (SELECT namespace FROM asked) NOT IN (SELECT namespace FROM every);

-- run is what its manifest says, and whether production changed meanwhile: a table has
-- other rows, or another content, than at the first count before.
CREATE TEMP TABLE run AS
WITH counts AS (
  SELECT r.namespace, r.id, r.data ->> '$.store' AS store, r.data ->> '$.phase' AS phase, t.value ->> '$.table' AS name,
         min(r.seq), t.value ->> '$.rows' AS n, t.value ->> '$.sha256' AS content
  FROM refers r, json_each(r.data, '$.tables') t WHERE r.type = 'isolation.counted' AND r.role = 'harness' GROUP BY 1, 2, 3, 4, 5),
changed AS (
  SELECT b.namespace, b.id FROM counts b JOIN counts a ON a.namespace = b.namespace AND a.id = b.id AND a.store IS b.store AND a.name = b.name
  WHERE b.phase = 'before' AND a.phase = 'after' AND (a.n <> b.n OR a.content <> b.content)),
finished AS (SELECT namespace, id, min(seq), data FROM refers WHERE type = 'run.finished' AND role = 'harness' GROUP BY namespace, id)
SELECT s.namespace, s.id, s.data ->> '$.arm' AS arm, s.data ->> '$.split' AS split, s.data ->> '$.scorer_sha256' AS scorer, s.data AS manifest, f.data AS ending,
       (s.namespace, s.id) IN (SELECT namespace, id FROM changed) AS changed
FROM thing s LEFT JOIN finished f USING (namespace, id) WHERE s.kind = 'run';

CREATE TEMP TABLE response AS
SELECT namespace, data ->> '$.run_id' AS run, data ->> '$.case_id' AS case_id, data ->> '$.stage' AS stage, data ->> '$.run_index' AS repetition, min(seq) AS seq, data
FROM ev WHERE type = 'response.recorded' AND role = 'harness' AND namespace IN (SELECT namespace FROM bench) GROUP BY 1, 2, 3, 4, 5;

-- trial is each response of the week to a case, with its arm and split, and the world of
-- the case, which is its own where none is named. What the manifest leaves out is none,
-- nor what the end of the run does; nor a case that its reveal does not open. That takes
-- SHA-256, which SQLite does not have: it is taken from the view.
CREATE TEMP TABLE trial AS
WITH committed AS (
  SELECT data ->> '$.case_id' AS case_id, min(seq), data ->> '$.world_id' AS world, data FROM ev
  WHERE type = 'case.committed' AND role = 'harness' AND NOT imported GROUP BY 1)
SELECT r.seq, r.namespace, r.case_id AS item, u.arm, u.split, u.scorer, u.arm || ', ' || u.split AS part, coalesce(c.world, r.case_id) AS cluster, r.data,
       EXISTS (SELECT 1 FROM json_each(c.data, '$.tags') t WHERE t.value = 'diagnosis') AS is_diagnosis
FROM response r JOIN run u ON u.namespace = r.namespace AND u.id = r.run LEFT JOIN committed c USING (case_id)
WHERE NOT u.changed AND r.case_id NOT IN (SELECT case_id FROM cases WHERE NOT imported AND NOT opens)
  AND r.case_id NOT IN (SELECT x.value ->> '$.case_id' FROM json_each(u.manifest, '$.exclusions') x)
  AND r.case_id NOT IN (SELECT x.value ->> '$.case_id' FROM json_each(u.ending, '$.exclusions') x)
  AND r.seq >= (SELECT first FROM span) AND r.seq < (SELECT past FROM span);

-- score is each scorer's first of a response that was there before, and that it names if
-- it names any.
CREATE TEMP TABLE score AS
WITH first AS (
  SELECT namespace, data ->> '$.run_id' AS run, data ->> '$.case_id' AS case_id, data ->> '$.stage' AS stage, data ->> '$.run_index' AS repetition,
         data ->> '$.scorer_sha256' AS scorer, min(seq) AS seq, data
  FROM ev WHERE type = 'score.recorded' AND role = 'harness' GROUP BY 1, 2, 3, 4, 5, 6)
SELECT f.seq, f.scorer, f.data, r.seq AS response FROM first f
JOIN response r ON r.namespace = f.namespace AND r.run = f.run AND r.case_id = f.case_id AND r.stage IS f.stage AND r.repetition IS f.repetition AND r.seq < f.seq
WHERE coalesce(f.data ->> '$.response_seq', r.seq) = r.seq;
CREATE INDEX temp.score_response ON score(response);

-- marked is each trial with the score that counts: that of the scorer which the manifest
-- names, else the first, unless it leaves the case out.
CREATE TEMP TABLE marked AS
SELECT t.*, s.seq AS by, s.data ->> '$.outcome' AS outcome, s.data ->> '$.exclusion' AS exclusion,
       (SELECT v.value ->> '$.value' FROM json_each(s.data, '$.values') v WHERE v.value ->> '$.metric' = 'regret' ORDER BY v.key LIMIT 1) AS regret,
       (SELECT v.value ->> '$.value' FROM json_each(s.data, '$.values') v WHERE v.value ->> '$.metric' = 'net_voi' ORDER BY v.key LIMIT 1) AS net_voi,
       (SELECT v.value ->> '$.value' FROM json_each(s.data, '$.values') v WHERE v.value ->> '$.metric' = 'strawman_rate' ORDER BY v.key LIMIT 1) AS strawman,
       (SELECT v.value ->> '$.value' FROM json_each(s.data, '$.values') v WHERE v.value ->> '$.metric' = 'time_to_first_useful_action' ORDER BY v.key LIMIT 1) AS first_useful
FROM trial t JOIN score s ON s.response = t.seq
WHERE CASE WHEN t.scorer IS NULL THEN s.seq = (SELECT min(o.seq) FROM score o WHERE o.response = t.seq) ELSE s.scorer = t.scorer END;
DELETE FROM marked WHERE exclusion IS NOT NULL;

-- reported is what the best witness says of a whole episode.
CREATE TEMP TABLE reported AS
SELECT seq, namespace, coalesce(episode, '') AS episode, data FROM (
  SELECT *, row_number() OVER (PARTITION BY namespace, coalesce(episode, ''), CASE WHEN coalesce(episode, '') = '' THEN seq END
                               ORDER BY CASE data ->> '$.context.capture' WHEN 'hook' THEN 2 WHEN 'otlp' THEN 3 ELSE 1 END, seq) AS place
  FROM ev WHERE type = 'episode.recorded' AND role IN ('harness', 'dispatcher') AND NOT imported AND data ->> '$.context.tool_call_id' IS NULL)
WHERE place = 1;

-- control is each case of the control matrix, once a run, condition and variant.
CREATE TEMP TABLE control AS
SELECT data ->> '$.case_id' AS id, data ->> '$.condition' AS condition, data ->> '$.outcome' AS outcome, min(seq) AS seq
FROM ev WHERE type = 'control.recorded' AND role = 'harness' AND namespace IN (SELECT namespace FROM bench)
GROUP BY namespace, data ->> '$.run_id', data ->> '$.condition', data ->> '$.variant', data ->> '$.case_id';

-- ---- Arms

-- entrant is what an arm did once: a trial, or an episode that is one of a pair. Nothing
-- is pooled over splits, nor over clients, models and tasks.
CREATE TEMP TABLE entrant AS
SELECT seq, item, arm, cluster, split AS place, data, 0 AS is_episode FROM trial
UNION ALL
SELECT r.seq, r.episode, r.data ->> '$.arm', r.data ->> '$.pair_id',
       coalesce(u.split, 'no split') || ', ' || coalesce(r.data ->> '$.client', '?') || '/' || coalesce(r.data ->> '$.client_version', '?') || '/' ||
       coalesce(r.data ->> '$.model', '?') || '/' || coalesce(r.data ->> '$.model_version', '?') || '/' || coalesce(r.data ->> '$.task_id', '?'), r.data, 1
FROM reported r LEFT JOIN run u ON u.namespace = r.namespace AND u.id = r.data ->> '$.run_id'
WHERE (r.namespace IN (SELECT namespace FROM bench) OR r.namespace = (SELECT namespace FROM asked))
  AND r.data ->> '$.arm' IS NOT NULL AND r.data ->> '$.pair_id' IS NOT NULL AND (r.data ->> '$.run_id' IS NULL OR NOT u.changed)
  AND r.seq >= (SELECT first FROM span) AND r.seq < (SELECT past FROM span);

-- shown is each measure of an entrant: what scorers give, and whether they call it
-- correct; cost, tokens, latency. NULL is unknown, and so is more than 2^53 parts.
CREATE TEMP TABLE shown AS
WITH given AS (
  SELECT e.seq, s.data ->> '$.scorer' AS scorer, v.value ->> '$.metric' AS metric, v.value ->> '$.value' AS value,
         row_number() OVER (PARTITION BY e.seq, s.data ->> '$.scorer', v.value ->> '$.metric' ORDER BY s.scorer, v.key) AS place
  FROM entrant e JOIN score s ON s.response = e.seq, json_each(s.data, '$.values') v WHERE s.data ->> '$.exclusion' IS NULL),
verdicts AS (
  SELECT e.seq, s.data ->> '$.scorer' AS scorer, s.data ->> '$.outcome' = 'correct' AS is_correct,
         (SELECT v.value ->> '$.value' FROM json_each(s.data, '$.values') v WHERE v.value ->> '$.metric' = 'correct' ORDER BY v.key LIMIT 1) AS stated,
         row_number() OVER (PARTITION BY e.seq, s.data ->> '$.scorer' ORDER BY s.scorer) AS place
  FROM entrant e JOIN score s ON s.response = e.seq WHERE s.data ->> '$.exclusion' IS NULL),
every AS (
  SELECT seq, 'scores' AS kind, scorer || ' ' || metric AS name, value FROM given WHERE place = 1 AND metric <> 'correct'
  UNION ALL SELECT seq, 'scores', scorer || ' correct', coalesce(stated, is_correct) FROM verdicts WHERE place = 1
  UNION ALL SELECT seq, 'scores', 'correct', data ->> '$.correct' FROM entrant WHERE is_episode
  UNION ALL SELECT seq, 'scores', 'success', data ->> '$.success' FROM entrant WHERE is_episode
  UNION ALL SELECT seq, 'cost', 'cost', CASE WHEN is_episode THEN data ->> '$.cost_usd' ELSE data ->> '$.cost.cost_usd' END FROM entrant
  UNION ALL SELECT seq, 'tokens', 'tokens', CASE WHEN is_episode THEN data ->> '$.total_tokens' ELSE data ->> '$.cost.input_tokens' + data ->> '$.cost.output_tokens' END FROM entrant
  UNION ALL SELECT seq, 'latency', 'latency', CASE WHEN is_episode THEN data ->> '$.latency_ms' ELSE coalesce(data ->> '$.elapsed_ms', data ->> '$.cost.latency_ms') END FROM entrant)
SELECT seq, kind, name, CASE WHEN abs(value) * per <= 9007199254740992.0 THEN value * 1.0 END AS value, per
FROM (SELECT *, CASE kind WHEN 'cost' THEN 1000000000 ELSE 1000000 END AS per FROM every);

-- sighting is each measure that any entrant of the same place shows, of every entrant of
-- it: what one does not show is unknown.
CREATE TEMP TABLE sighting AS
WITH names AS (SELECT DISTINCT s.kind, s.name, s.per, e.place FROM shown s JOIN entrant e USING (seq))
SELECT n.kind, n.name, n.per, n.name || ', ' || n.place AS field, e.cluster, e.arm, e.seq, e.item, s.value
FROM names n JOIN entrant e USING (place) LEFT JOIN shown s ON s.seq = e.seq AND s.kind = n.kind AND s.name = n.name;
CREATE INDEX temp.sighting_field ON sighting(kind, field, arm, cluster);

-- rival is each two arms that are compared, the first above the second: as somebody
-- registered it, else as C9's matrix has it, else with a control arm.
CREATE TEMP TABLE rival AS
WITH registration AS (
  SELECT namespace, data ->> '$.prereg_id', min(seq), data FROM ev
  WHERE type = 'preregistration.committed' AND role = 'operator' AND (namespace IN (SELECT namespace FROM bench) OR namespace = (SELECT namespace FROM asked)) GROUP BY 1, 2),
wanted(class, place, a, b) AS (
  SELECT DISTINCT 1, 0, e.value, data ->> '$.arms[0]' FROM registration, json_each(data, '$.arms') e WHERE e.key > 0
  UNION ALL VALUES (2, 1, 'A1', 'A0'), (2, 2, 'A2', 'A1'), (2, 3, 'A2', 'A3'), (2, 4, 'A10', 'A9'), (2, 5, 'A9', 'A3'), (2, 6, 'A10', 'A5'), (2, 7, 'A5', 'A2'), (2, 8, 'A6', 'A5'), (2, 9, 'A7', 'A2')
  UNION ALL SELECT 3, c.place, e.arm, c.arm FROM (SELECT DISTINCT arm FROM entrant) e, (SELECT 1 AS place, 'A2' AS arm UNION VALUES (2, 'A9'), (3, 'baseline'), (4, 'empty')) c)
SELECT a, b FROM (SELECT *, row_number() OVER (PARTITION BY min(a, b), max(a, b) ORDER BY class, place, a, b) AS nth FROM wanted WHERE a <> b) WHERE nth = 1;

-- pair is each cluster in which both arms are known. "seq" is the first arm's first.
CREATE TEMP TABLE pair AS
WITH side AS (
  SELECT kind, name, field, arm, cluster, min(seq) AS seq, count(*) AS n, min(value) AS low, max(value) AS high FROM sighting
  GROUP BY kind, field, arm, cluster HAVING count(*) = count(value))
SELECT a.kind, a.name, a.field, a.field || ': ' || r.a || ' − ' || r.b AS part, a.cluster, a.seq, a.arm AS a, b.arm AS b, a.n AS of_a, b.n AS of_b,
       CASE WHEN a.low = a.high AND a.low IN (0, 1) THEN a.low END AS right_a, CASE WHEN b.low = b.high AND b.low IN (0, 1) THEN b.low END AS right_b
FROM rival r JOIN side a ON a.arm = r.a JOIN side b ON b.arm = r.b AND b.kind = a.kind AND b.field = a.field AND b.cluster = a.cluster;

-- difference is what each value adds to that of its pair, or takes away.
CREATE TEMP TABLE difference AS
SELECT p.kind, 'denominator' AS role, cluster AS item, seq, 1 AS n, seq AS of, part FROM pair p
UNION ALL
SELECT p.kind, 'numerator', s.item, s.seq,
       CAST(round(CASE s.arm WHEN p.a THEN s.value / p.of_a ELSE -s.value / p.of_b END * s.per) AS INTEGER), s.seq, p.part
FROM pair p JOIN sighting s ON s.kind = p.kind AND s.field = p.field AND s.cluster = p.cluster AND s.arm IN (p.a, p.b);
