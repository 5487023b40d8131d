-- OMOP CDM 5.4. Adults with type 2 diabetes, by what is known before 2023; the label is kidney disease since.
-- Standard concepts: 201826 type 2 diabetes, 320128 hypertension, 46271022 chronic kidney disease; 8507 male,
-- 8532 female; 3004410 HbA1c (%), 3004249 systolic blood pressure (mmHg), 3016723 creatinine in serum (mg/dl).
-- It runs as it is on PostgreSQL, SQLite and DuckDB.
WITH measured AS (
    SELECT person_id, measurement_concept_id AS concept, value_as_number AS value, ROW_NUMBER() OVER (
        PARTITION BY person_id, measurement_concept_id ORDER BY measurement_date DESC, measurement_id DESC
    ) AS place
    FROM measurement
    WHERE measurement_date < '2023-01-01' AND value_as_number IS NOT NULL
), latest AS (
    SELECT person_id, concept, value FROM measured WHERE place = 1
)
SELECT
    2023 - p.year_of_birth AS age,
    CASE p.gender_concept_id WHEN 8507 THEN 'male' WHEN 8532 THEN 'female' END AS sex,
    CASE WHEN EXISTS (
        SELECT 1 FROM condition_occurrence c
        WHERE c.person_id = p.person_id AND c.condition_concept_id = 320128 AND c.condition_start_date < '2023-01-01'
    ) THEN 'yes' ELSE 'no' END AS hypertension,
    (SELECT value FROM latest m WHERE m.person_id = p.person_id AND m.concept = 3004410) AS hba1c,
    (SELECT value FROM latest m WHERE m.person_id = p.person_id AND m.concept = 3004249) AS systolic,
    (SELECT value FROM latest m WHERE m.person_id = p.person_id AND m.concept = 3016723) AS creatinine,
    CASE WHEN EXISTS (
        SELECT 1 FROM condition_occurrence c
        WHERE c.person_id = p.person_id AND c.condition_concept_id = 46271022 AND c.condition_start_date >= '2023-01-01'
    ) THEN 'yes' ELSE 'no' END AS kidney_disease
FROM person p
WHERE 2023 - p.year_of_birth >= 18 AND EXISTS (
    SELECT 1 FROM condition_occurrence c
    WHERE c.person_id = p.person_id AND c.condition_concept_id = 201826 AND c.condition_start_date < '2023-01-01'
);
