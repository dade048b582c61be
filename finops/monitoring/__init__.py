"""The pack for people who live in Grafana: Prometheus rules and dashboards, made from the table of
engines' metrics (`finops.sources.engine_roles`), so that a renamed metric is changed in one place.
"""
