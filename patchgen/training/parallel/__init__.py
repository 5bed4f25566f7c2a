"""How is a model trained on several processes, and do the plans of it say so truly?"""
